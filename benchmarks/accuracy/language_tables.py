"""Tables of perplexity: as such, as shares of what the stored order gives, and of dense."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.accuracy.base import Cell
from benchmarks.accuracy.spread import Pick, Results, difference, summary
from benchmarks.accuracy.tables import lines, orders_of

MEASURE = "loss"


def perplexities(results: Results) -> Iterator[str]:
    """Yield perplexity by method and order, and how many times that of the dense network it is.

    ``perplexity (x dense)``; of several cells exp of the mean loss, with the number of cells.
    """
    orders = orders_of(results)
    dense = _mean(results, Cell("dense", ""))
    yield from lines(
        ["pattern", "method", *orders],
        [
            [f"`{p}`" if m else p, m, *(_perplexity(results, Cell(p, m, o), dense) for o in orders)]
            for p, m in _rows(results)
        ],
    )


def ratios(results: Results) -> Iterator[str]:
    """Yield perplexity as a share of that in the stored order, and of that in random ones.

    ``ratio ± standard error``, paired over windows; seeds and draws are averaged first. For
    several draws or calibration sets the range of their ratios stands behind.
    """
    pairs = (
        ("random", "stored"),
        ("absorbed", "stored"),
        ("gathered", "stored"),
        ("absorbed", "random"),
        ("gathered", "random"),
    )
    body = [
        [f"`{p}`", m, *(_ratio(results, Cell(p, m, one), Cell(p, m, two)) for one, two in pairs)]
        for p, m in _rows(results)
        if m
    ]
    head = ["pattern", "method", *(f"{one} / {two}" for one, two in pairs)]
    yield from lines(head, [line for line in body if any(line[2:])])


def methods(results: Results, pairs: Sequence[tuple[Cell, Cell]]) -> Iterator[str]:
    """Yield the ratio of the first to the second of each pair of cells (their seeds apart)."""
    body = [[_told(one), _told(two), _ratio(results, one, two)] for one, two in pairs]
    yield from lines(["of", "to", "ratio of perplexities"], [line for line in body if line[2]])


def _told(cell: Cell) -> str:
    return f"{cell.pattern} {cell.method}, {cell.order}" if cell.method else cell.pattern


def _rows(results: Results) -> list[tuple[str, str]]:
    return list(dict.fromkeys((cell.pattern, cell.method) for cell in results))


def _pick(like: Cell) -> Pick:
    wanted = (like.pattern, like.method, like.order)
    return lambda cell: (cell.pattern, cell.method, cell.order) == wanted


def _mean(results: Results, like: Cell) -> float:
    found = summary(results, MEASURE, _pick(like))
    return math.nan if found is None else found.mean


def _perplexity(results: Results, like: Cell, dense: float) -> str:
    found = summary(results, MEASURE, _pick(like))
    if found is None:
        return ""
    digits = 1 if found.mean < math.log(100) else 0
    more = f"; {found.cells} cells" if found.cells > 1 else ""
    return f"{math.exp(found.mean):,.{digits}f} ({math.exp(found.mean - dense):.2f} x{more})"


def _ratio(results: Results, one: Cell, two: Cell) -> str:
    found = difference(results, MEASURE, _pick(one), _pick(two))
    if found is None:
        return ""
    ratio = math.exp(found.mean)
    text = f"{ratio:.3f} ± {ratio * found.error:.3f}"
    own = [cell for cell in results if _pick(one)(cell)]
    each = (difference(results, MEASURE, cell.__eq__, _pick(two)) for cell in own)
    single = [math.exp(only.mean) for only in each if only is not None]
    return f"{text} ({min(single):.3f} to {max(single):.3f})" if len(single) > 1 else text
