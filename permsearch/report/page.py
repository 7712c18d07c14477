"""From a comparison's numbers to one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from permsearch.report.bars import layer_bars
from permsearch.report.environment import environment, in_words
from permsearch.report.scatter import scatter
from permsearch.summary import summarise

__all__ = ["environment", "render"]

COLOURS = 8  # how many the style sheet defines


def render(
    rows: Sequence[Mapping[str, Any]],
    *,
    about: Mapping[str, Any],
    skipped: Sequence[Mapping[str, str]] = (),
    summary: Sequence[Mapping[str, Any]] | None = None,
    title: str | None = None,
) -> str:
    """Return the page of a comparison.

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
    title
        The page's heading; None: the pattern's.

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
        title=title or f"Orders for {about.get('pattern', 'structured sparsity')}",
        about=in_words(about),
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


def _moves(rows: Sequence[Mapping[str, Any]], solver: str) -> bool:
    return any(row["retained"] > row["baseline"] for row in rows if row["solver"] == solver)
