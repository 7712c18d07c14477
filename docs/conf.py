"""How Sphinx builds the pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import permsearch  # noqa: E402

project = "permsearch"
author = "permsearch maintainers"
copyright = "permsearch maintainers, Apache-2.0"
version = release = permsearch.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "command_help",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# Links such as [a section](page.md#a-section) point at headings, as they do in the repository.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False
# Type aliases are shown by their names, not spelt out in every signature.
autodoc_type_aliases = {
    name: name
    for name in (
        *("ArrayLike", "Axis", "Mask", "Order", "Patterns", "Permute", "Row", "Scores"),
        *("Solution", "Start", "State", "Tensors"),
    )
}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False

# A word in `single backticks` is a link where it names something public, else code.
default_role = "py:obj"

html_theme = "furo"
html_title = "permsearch"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
# No page fetches anything: the site reads the same without a network.
html_theme_options = {"navigation_with_keys": True}

suppress_warnings = [
    "ref.python",  # a word in a docstring that names things in two packages is code and no link
    "toc.empty_glob",  # a kind of page of which there is none yet
]
