"""Markdown tables of accuracy: means with spread over seeds, and paired differences of orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.accuracy.base import Cell, Measure
from benchmarks.accuracy.spread import Pick, Results, difference, summary

ORDERS = ("stored", "random", "absorbed", "gathered")
#: Differences that are shown, where both are there.
PAIRS = (
    ("random", "stored"),
    ("absorbed", "stored"),
    ("absorbed", "random"),
    ("gathered", "stored"),
    ("gathered", "random"),
)


def means(
    results: Results, measure: Measure, rows: Sequence[tuple[str, str]], orders: Sequence[str]
) -> Iterator[str]:
    """Yield a table of means: a line for each (pattern, method), a column for each order.

    ``mean ± standard deviation over seeds (cells)``; without the latter two for a single cell.
    """
    yield from lines(
        ["pattern", "method", *orders],
        [
            [f"`{pattern}`" if method else pattern, method, *(
                _mean(results, measure, _picked(pattern, method, order)) for order in orders
            )]
            for pattern, method in rows
        ],
    )  # fmt: skip


def differences(
    results: Results,
    measure: Measure,
    rows: Sequence[tuple[str, str]],
    pairs: Sequence[tuple[str, str]] = PAIRS,
) -> Iterator[str]:
    """Yield a table of what one order has over another: ``mean ± standard error over items``."""
    body = [
        [f"`{pattern}`", method, *(
            _difference(results, measure, *(_picked(pattern, method, o) for o in pair))
            for pair in pairs
        )]
        for pattern, method in rows
    ]  # fmt: skip
    used = [at for at in range(len(pairs)) if any(line[at + 2] for line in body)]
    yield from lines(
        ["pattern", "method", *(f"{pairs[at][0]} less {pairs[at][1]}" for at in used)],
        [[*line[:2], *(line[at + 2] for at in used)] for line in body if any(line[2:])],
    )


def rows_of(results: Results) -> list[tuple[str, str]]:
    """Return (pattern, method) of all cells, as they first came."""
    return list(dict.fromkeys((cell.pattern, cell.method) for cell in results))


def orders_of(results: Results) -> list[str]:
    """Return the orders of all cells, the usual ones first."""
    found = dict.fromkeys(cell.order for cell in results)
    return [o for o in ORDERS if o in found] + [o for o in found if o not in ORDERS]


def lines(head: Sequence[str], body: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    yield from ("| " + " | ".join(line) + " |" for line in body)


def filled(page: str, name: str, body: Iterable[str]) -> str:
    """Return a page with what stands between ``<!-- NAME -->`` and ``<!-- end -->`` made anew."""
    marker = f"<!-- {name} -->"
    if marker not in page:
        return page
    before, _, rest = page.partition(marker)
    _, _, after = rest.partition("<!-- end -->")
    text = "\n".join(body)
    return f"{before}{marker}\n\n{text}\n\n<!-- end -->{after}"


def _picked(pattern: str, method: str, order: str) -> Pick:
    def pick(cell: Cell) -> bool:
        return (cell.pattern, cell.method, cell.order) == (pattern, method, order)

    return pick


def _mean(results: Results, measure: Measure, pick: Pick) -> str:
    found = summary(results, measure.name, pick)
    if found is None:
        return ""
    show = measure.shown or (lambda value: value)
    text = f"{show(found.mean):.{measure.digits}f}"
    if found.spread is None:
        return text
    spread = (show(found.mean + found.spread) - show(found.mean - found.spread)) / 2
    return f"{text} ± {spread:.{measure.digits}f} ({found.cells})"


def _difference(results: Results, measure: Measure, one: Pick, other: Pick) -> str:
    found = difference(results, measure.name, one, other)
    if found is None:
        return ""
    return f"{found.mean:+.{measure.digits}f} ± {found.error:.{measure.digits}f}"
