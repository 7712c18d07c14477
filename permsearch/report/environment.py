"""Where the pages' templates come from, and how they write numbers and names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from permsearch.errors import MissingExtra
from permsearch.report.text import clean, percent, points, seconds, share, times

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def environment() -> Environment:
    """Return where templates come from; a run asks first, so as not to fail after its work.

    Raises
    ------
    MissingExtra
        jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtra(
            "the HTML report needs jinja2; install it with `pip install 'permsearch[report]'`."
        ) from error
    made = Environment(
        loader=PackageLoader("permsearch.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        breakable=_breakable,
        percent=percent,
        points=points,
        seconds=seconds,
        share=share,
        times=times,
    )
    return made


def in_words(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was run with yes and no as people say it."""
    told = dict(about)
    complete = told.pop("complete", None)
    if complete is not None:
        told["run"] = "to its end" if complete else "interrupted before its end"
    words = {True: "yes", False: "no"}
    return {key: words[value] if isinstance(value, bool) else value for key, value in told.items()}


def _breakable(name: str) -> Markup:
    """Return a name that may be broken after a dot, a slash or an underscore."""
    from markupsafe import Markup, escape

    text = str(escape(clean(name)))
    return Markup(re.sub(r"([._/])", r"\1<wbr>", text))
