"""Docstrings are written to be read as they stand; this escapes what reST would misread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# A convolution's shape, (out, in, *k), and private orders, *tiles: no emphasis begins there.
STAR = re.compile(r"(?<![\w*`\\])\*(?=\w+[,)])")


def escape_stars(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Escape the stars of shapes, in place."""
    del app, what, name, obj, options
    lines[:] = [line if line.startswith(">>>") else STAR.sub(r"\\*", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx about the hook; napoleon's runs after it."""
    app.connect("autodoc-process-docstring", escape_stars, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
