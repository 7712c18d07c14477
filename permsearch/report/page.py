"""From a comparison's numbers to one self-contained page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from permsearch.errors import MissingExtra
from permsearch.report.bars import layer_bars
from permsearch.report.scatter import scatter
from permsearch.report.text import clean, percent, points, seconds, share, times
from permsearch.summary import summarise

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

COLOURS = 8  # how many the style sheet defines


def render(
    rows: Sequence[Mapping[str, Any]],
    *,
    about: Mapping[str, Any],
    skipped: Sequence[Mapping[str, str]] = (),
    summary: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """Return the page.

    Parameters
    ----------
    rows
        As `permsearch.rows.COLUMNS` describes them, one per tensor and solver.
    about
        What was run: pairs of a word and a value, shown at the top. `pattern` gives the title.
    skipped
        Tensors left out, each with `tensor` and `reason`.
    summary
        A row per solver as `permsearch.summary.summarise` makes them; None: of all rows.

    Raises
    ------
    MissingExtra
        jinja2 is not installed.
    """
    pages = environment()
    summary = summarise(rows) if summary is None else summary
    solvers = list(dict.fromkeys(row["solver"] for row in rows))
    colour = {solver: position % COLOURS for position, solver in enumerate(solvers)}
    moving = [solver for solver in solvers if _moves(rows, solver)]
    return pages.get_template("comparison.html.jinja").render(
        about=_in_words(about),
        rows=rows,
        skipped=skipped,
        solvers=solvers,
        still=[solver for solver in solvers if solver not in moving],
        colour=colour,
        summary=summary,
        against_window=any(row["gain_over_window"] is not None for row in summary),
        bars=layer_bars([row for row in rows if row["solver"] in moving]),
        scatter=scatter([row for row in rows if row["solver"] in moving]),
    )


def _in_words(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was run with yes and no as people say it."""
    told = dict(about)
    complete = told.pop("complete", None)
    if complete is not None:
        told["run"] = "to its end" if complete else "interrupted before its end"
    return told


def _moves(rows: Sequence[Mapping[str, Any]], solver: str) -> bool:
    return any(row["retained"] > row["baseline"] for row in rows if row["solver"] == solver)


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


def _breakable(name: str) -> Markup:
    """Return a name that may be broken after a dot, a slash or an underscore."""
    from markupsafe import Markup, escape

    text = str(escape(clean(name)))
    return Markup(re.sub(r"([._/])", r"\1<wbr>", text))
