"""`auto` against the published search at the same CPU seconds, on every trained weight."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import permsearch as ps
from benchmarks.matrices import trained

SHORTEST = 0.05  # seconds: where the window search needs less, `auto` is given this


def _searched(
    problem: ps.Problem, solver: str, stop: ps.StoppingCriterion | None
) -> tuple[float, float]:
    """Return the gain as a share of the total, and the CPU seconds."""
    begun = time.process_time()
    result = ps.solve(problem, solver, stop=stop)
    seconds = time.process_time() - begun
    return (result.score - result.baseline) / result.total, seconds


def run() -> Iterator[dict[str, Any]]:
    """Yield a row per weight: the gains of `window`, and of `auto` in 1 and 10 times its time."""
    for name, weight in trained():
        problem = ps.single(weight, "2:4", name=name)
        window, seconds = _searched(problem, "window", None)
        row: dict[str, Any] = {
            "tensor": name,
            "rows": weight.size // weight.shape[1],
            "cols": weight.shape[1],
            "window_gain": window,
            "window_seconds": seconds,
        }
        for times in (1, 10):
            allowed = times * max(SHORTEST, seconds)
            gain, used = _searched(problem, "auto", ps.MaxCpuSeconds(allowed))
            row |= {f"auto_{times}x_gain": gain, f"auto_{times}x_seconds": used}
            row[f"ratio_{times}x"] = gain / window if window > 0 else None
        yield row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians and the weakest ratio."""
    found = {
        times: [r[f"ratio_{times}x"] for r in rows if r[f"ratio_{times}x"]] for times in (1, 10)
    }
    return {
        "weights": len(rows),
        "lowest_1x": min(found[1]),
        "median_1x": median(found[1]),
        "lowest_10x": min(found[10]),
        "median_10x": median(found[10]),
    }
