"""`auto` against the published search at the same CPU seconds, on every trained weight.

Three budgets: the time that our `window` takes; ten times that; and the time that it would take at
three million re-splits a second at 384 rows, which is a good pace for that method elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

import permsearch as ps
from benchmarks.matrices import trained

if TYPE_CHECKING:
    import argparse

SHORTEST = 0.05  # seconds: where the window search needs less, `auto` is given this
PACE = 3e6 * 384  # re-splits a second, times rows
BUDGETS = ("1x", "10x", "paced")


def _searched(
    problem: ps.Problem, solver: str, stop: ps.StoppingCriterion | None
) -> tuple[ps.SearchResult, float]:
    """Return the result and the CPU seconds of the whole call."""
    begun = time.process_time()
    result = ps.solve(problem, solver, stop=stop)
    return result, time.process_time() - begun


def _gain(result: ps.SearchResult) -> float:
    return (result.score - result.baseline) / result.total


def run() -> Iterator[dict[str, Any]]:
    """Yield a row per weight: the gains of `window`, and of `auto` in each of the budgets."""
    for name, weight in trained():
        problem = ps.single(weight, "2:4", name=name)
        window, seconds = _searched(problem, "window", None)
        rows = weight.size // weight.shape[1]
        row: dict[str, Any] = {
            "tensor": name,
            "rows": rows,
            "cols": weight.shape[1],
            "window_gain": _gain(window),
            "window_seconds": seconds,
        }
        times = (seconds, 10 * max(SHORTEST, seconds), 35 * window.steps * rows / PACE)
        for budget, allowed in zip(BUDGETS, times, strict=True):
            result, used = _searched(problem, "auto", ps.MaxCpuSeconds(max(SHORTEST, allowed)))
            row |= {f"auto_{budget}_gain": _gain(result), f"auto_{budget}_seconds": used}
            row[f"ratio_{budget}"] = _gain(result) / _gain(window) if _gain(window) > 0 else None
        yield row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the lowest and the median ratio for each budget."""
    out: dict[str, Any] = {"weights": len(rows)}
    for budget in BUDGETS:
        ratios = [row[f"ratio_{budget}"] for row in rows if row[f"ratio_{budget}"] is not None]
        out |= {f"lowest_{budget}": min(ratios), f"median_{budget}": median(ratios)}
    return out


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the weights one by one, then their summary."""
    del options
    rows: list[dict[str, Any]] = []
    yield "window", _kept(rows)
    yield "window_summary", iter([summary(rows)])


def _kept(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in run():
        rows.append(row)
        yield row
