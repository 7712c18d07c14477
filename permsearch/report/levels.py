"""Geometry of what is kept before and after, and what no order exceeds, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_LINES = 60  # beyond that the table says more than a picture
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Level:
    """One line: shares as they are, and where they lie in units of the drawing; None: unknown."""

    name: str
    note: str
    before: float | None
    after: float
    bound: float | None
    x_before: float | None
    x_after: float
    x_bound: float | None


@dataclass(frozen=True, slots=True)
class Levels:
    """All lines drawn, both ends of their scale, and how many there are in all."""

    lines: tuple[Level, ...]
    low: float
    high: float
    count: int


def levels(rows: Sequence[Mapping[str, Any]]) -> Levels | None:
    """Return the picture of rows, or None without any.

    Parameters
    ----------
    rows
        Each with `name`, `note`, `retained`, `weight` (which of too many are drawn), and
        `baseline` and `bound`, which may be None. Shares are of the line's own total.
    """
    if not rows:
        return None
    heaviest = sorted(range(len(rows)), key=lambda at: -rows[at]["weight"])[:MOST_LINES]
    drawn = [rows[at] for at in sorted(heaviest)]
    known = list(_known(drawn))
    low, high = min(known), max(known)
    room = (high - low) or 1.0
    low, high = max(0.0, low - 0.04 * room), min(1.0, high + 0.04 * room)
    span = (high - low) or 1.0

    def x(value: float | None) -> float | None:
        return None if value is None else WIDTH * (value - low) / span

    lines = tuple(
        Level(
            row["name"],
            row["note"],
            row["baseline"],
            row["retained"],
            row["bound"],
            x(row["baseline"]),
            WIDTH * (row["retained"] - low) / span,
            x(row["bound"]),
        )
        for row in drawn
    )
    return Levels(lines, low, high, len(rows))


def _known(rows: Iterable[Mapping[str, Any]]) -> Iterable[float]:
    for row in rows:
        for key in ("baseline", "retained", "bound"):
            if row[key] is not None:
                yield float(row[key])
