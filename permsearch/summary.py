"""What a comparison says about each solver as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from permsearch.rows import Row

REFERENCE = "window"  # the published search that others are measured against


def summarise(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return one row per solver, in the order in which they first appear.

    `retained` and `baseline` weigh each tensor by its total score, `efficacy` and `gap` are plain
    means, times are sums. `gain_over_window` is the median, over the tensors that both searched
    and `window` improved, of the solver's gain divided by window's.
    """
    solvers = list(dict.fromkeys(row["solver"] for row in rows))
    reference = {row["tensor"]: row for row in rows if row["solver"] == REFERENCE}
    return [
        _summary([row for row in rows if row["solver"] == solver], reference) for solver in solvers
    ]


def _summary(rows: list[Mapping[str, Any]], reference: Mapping[str, Mapping[str, Any]]) -> Row:
    return {
        "solver": rows[0]["solver"],
        "tensors": len(rows),
        "retained": _weighted(rows, "retained"),
        "baseline": _weighted(rows, "baseline"),
        "bound": _weighted(rows, "bound"),
        "efficacy": fmean(row["efficacy"] for row in rows),
        "gap": fmean(row["gap"] for row in rows),
        "seconds": sum(row["seconds"] for row in rows),
        "cpu_seconds": sum(row["cpu_seconds"] for row in rows),
        "gain_over_window": _relative_gain(rows, reference),
    }


def _weighted(rows: list[Mapping[str, Any]], key: str) -> float:
    total = sum(row["total"] for row in rows)
    if total <= 0:
        return fmean(row[key] for row in rows)
    return float(sum(row[key] * row["total"] for row in rows) / total)


def _gain(row: Mapping[str, Any]) -> float:
    return float(row["retained"] - row["baseline"])


def _relative_gain(
    rows: list[Mapping[str, Any]], reference: Mapping[str, Mapping[str, Any]]
) -> float | None:
    ratios = [
        _gain(row) / _gain(reference[row["tensor"]])
        for row in rows
        if row["tensor"] in reference and _gain(reference[row["tensor"]]) > 0
    ]
    return median(ratios) if ratios else None


def table_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows of a comparison, or of its summary, as aligned lines under a heading."""
    from permsearch.report.text import clean, percent, seconds, share

    told = [("tensor", "solver", "retained", "start", "efficacy", "gap", "cpu")]
    for row in rows:
        name = row.get("tensor", f"{row.get('tensors')} tensors")
        shares = (share(row["retained"]), share(row["baseline"]))
        parts = (percent(row["efficacy"]), percent(row["gap"]), seconds(row["cpu_seconds"]))
        told.append((clean(name), str(row["solver"]), *shares, *parts))
    widths = [max(map(len, column)) for column in zip(*told, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in told
    ]
