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


def members_of(name: str) -> set[str]:
    """Return what a module lists as public, or else defines."""
    module = importlib.import_module(name)
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", "") == name}
    return set(getattr(module, "__all__", own))


def reference() -> set[str]:
    """Return the names that the pages of the reference have entries for, modules spelt out."""
    found, module = set(), ""
    for page in sorted((DOCS / "api").glob("*.rst")):
        text = page.read_text(encoding="utf-8")
        for kind, name, options in re.findall(r"^\.\. (\w+):: (\S+)\n((?: +:.*\n)*)", text, re.M):
            if kind == "currentmodule":
                module = name
            elif kind == "automodule":
                found |= {name, *(members_of(name) if ":members:" in options else ())}
            elif kind.startswith("auto") or kind == "data":
                found |= {name, f"{module}.{name}"}
    return found


def test_the_reference_has_every_public_name() -> None:
    """Each name of the public surface has an entry, by itself or with its module."""
    entries = reference()
    missing = [
        name
        for name in SURFACE.read_text(encoding="utf-8").split()
        if name not in entries and name.rpartition(".")[2] not in entries
    ]
    assert not missing, f"add them to a page of docs/api: {missing}"


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
