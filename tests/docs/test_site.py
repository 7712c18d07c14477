"""The site is complete: its pictures are drawn by the scripts, its reference has every name."""

from __future__ import annotations

import importlib.util
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.test_docs import DOCS

if TYPE_CHECKING:
    from types import ModuleType

SURFACE = DOCS.parent / "tests" / "data" / "surface.txt"


def module_of(path: Path) -> ModuleType:
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWN = module_of(DOCS / "draw_concepts.py")


@pytest.mark.parametrize("name", DRAWN.PICTURES)
def test_pictures_are_what_the_script_draws(name: str) -> None:
    """A picture's bytes come out of the script again; else run it and commit them."""
    stored = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    assert stored == DRAWN.PICTURES[name](), "run python docs/draw_concepts.py"


def test_the_reference_has_every_public_name() -> None:
    """What has no entry on a page of its subject gets one on the page of further names."""
    told = module_of(DOCS / "_ext" / "further_names.py")
    has = told.listed()
    assert {"permsearch.search", "pruning.trace", "sparsekernels.pack", "FileError"} <= has
    assert "permsearch.nobody" not in has
    public = set(SURFACE.read_text(encoding="utf-8").split())
    assert len(public & has) > 0.8 * len(public)
    for name in told.further():
        assert told.entry_of(name).startswith(".. auto")
    assert told.entry_of("permsearch.Free").startswith(".. autoclass:: permsearch.Free\n")
    assert ".. further-names::" in (DOCS / "api" / "further.rst").read_text(encoding="utf-8")


def test_the_reference_has_every_command() -> None:
    """The page of the command line is made of all commands' own help, plug-ins included."""
    told = module_of(DOCS / "_ext" / "command_help.py")
    assert {"search", "compare", "permute", "doctor"} <= set(told.names())
    for name in ("", *told.names()):
        assert told.help_of(name).startswith(f"Usage: permsearch {name}".strip())


def test_every_page_is_on_the_site() -> None:
    """Each page is in the table of contents, so that a reader can find it."""
    lines = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    patterns = (DOCS / "patterns" / "README.md").read_text(encoding="utf-8")
    lines += [f"patterns/{line}" for line in patterns.splitlines()]
    for page in sorted(DOCS.rglob("*.md")):
        name = str(page.relative_to(DOCS).with_suffix(""))
        if not name.startswith("_build") and name != "index":
            listed = any(fnmatchcase(name, line.strip()) for line in lines)
            assert listed, f"{name} is in no toctree of docs/index.md"


def test_the_project_is_told_in_its_own_words() -> None:
    """No page names a folder of one machine."""
    for page in [*DOCS.rglob("*.md"), *(DOCS / "api").glob("*.rst")]:
        if "_build" not in page.parts:
            assert not re.search(r"/(?:work|home|tmp|root)/", page.read_text(encoding="utf-8")), (
                page
            )
