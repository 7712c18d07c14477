"""A directive with entries for all public names that no page of the reference has."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

PAGES = Path(__file__).resolve().parents[1] / "api"
PACKAGES = ("permsearch", "pruning", "sparsekernels")
_ENTRY = re.compile(r"^\.\. (\w+):: (\S+)\n((?: +:.*\n)*)", re.MULTILINE)


def members_of(name: str) -> set[str]:
    """Return what a module lists as public, or else defines."""
    module = importlib.import_module(name)
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", "") == name}
    return set(getattr(module, "__all__", own))


def listed() -> set[str]:
    """Return the names that pages have entries for: as they stand there, and with their module."""
    found, module = set(), ""
    for page in sorted(PAGES.glob("*.rst")):
        for kind, name, options in _ENTRY.findall(page.read_text(encoding="utf-8")):
            if kind == "currentmodule":
                module = name
            elif kind == "automodule":
                found |= {name, *(members_of(name) if ":members:" in options else ())}
            elif kind.startswith("auto") or kind == "data":
                found |= {name, f"{module}.{name}"}
    return found


def further() -> list[str]:
    """Return the public names of the packages that no page has, dotted."""
    has = listed()
    public = [f"{p}.{name}" for p in PACKAGES for name in importlib.import_module(p).__all__]
    return [name for name in public if name not in has and name.rpartition(".")[2] not in has]


def entry_of(name: str) -> str:
    """Return what documents a name."""
    package, _, own = name.rpartition(".")
    value = getattr(importlib.import_module(package), own)
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
    return f".. auto{kind}:: {name}\n" + ("   :members:\n" if kind == "class" else "")


class FurtherNames(SphinxDirective):
    """``.. further-names::``: an entry for each of them, or a word that there is none."""

    def run(self) -> list[nodes.Node]:
        """Return the entries."""
        names = further()
        text = "\n".join(map(entry_of, names)) if names else "There are none."
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx about the directive."""
    app.add_directive("further-names", FurtherNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
