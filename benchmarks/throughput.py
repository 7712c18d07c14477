"""Throughput of the kernels, as ratios to a public yardstick within the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import argparse

SHAPES = ((384, 384), (1024, 1024), (384, 1536))
REPEATS = 7


def _seconds(call: Callable[[], object], least: float = 0.05) -> float:
    """Return the CPU seconds of one call: as many calls as fill `least` seconds are timed."""
    call()
    calls = 0
    begun = time.process_time()
    while time.process_time() - begun < least:
        call()
        calls += 1
    return (time.process_time() - begun) / calls


def _interleaved(calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the seconds of each call, measured in turn so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(REPEATS):
        for name, call in calls.items():
            times[name].append(_seconds(call))
    return times


def distances() -> Iterator[dict[str, Any]]:
    """Yield elements a second of the L1 kernels and their ratios, shape by shape."""
    from scipy.spatial.distance import cdist

    from permsearch.kernels.l1 import summax
    from permsearch.kernels.sad import padded_bytes, sad_matrix

    rng = np.random.default_rng(0)
    for count, rows in SHAPES:
        columns = np.abs(rng.standard_normal((count, rows))).astype(np.float32)
        levels = padded_bytes(count, rows)
        levels[:, :rows] = rng.integers(0, 256, (count, rows))
        out32 = np.empty((count, count), np.float32)
        out8 = np.empty((count, count), np.int32)
        wide = columns.astype(np.float64)
        times = _interleaved(
            {
                "cdist": partial(cdist, wide, wide, "cityblock"),
                "float32": partial(summax, columns, columns, out32),
                "uint8": partial(sad_matrix, levels, levels, out8),
            }
        )
        elements = count * count * rows
        pairs = list(zip(*times.values(), strict=True))
        yield {
            "columns": count,
            "rows": rows,
            **{f"{name}_per_second": elements / median(s) for name, s in times.items()},
            "float32_to_cdist": median(c / f for c, f, _ in pairs),
            "uint8_to_float32": median(f / u for _, f, u in pairs),
        }


def _warm(cost: Any, duals: Any, rows: Any, cols: Any) -> None:
    from permsearch.kernels.jv import assign

    assign(cost, duals.copy(), rows, cols)


def assignments() -> Iterator[dict[str, Any]]:
    """Yield the speed of the warm-started assignment against scipy's, on a search's costs."""
    from scipy.optimize import linear_sum_assignment

    from permsearch.kernels.jv import assign
    from permsearch.kernels.l1 import summax

    rng = np.random.default_rng(0)
    for groups in (96, 256):
        columns = np.abs(rng.standard_normal((groups, 384))).astype(np.float32)
        holes = np.abs(rng.standard_normal((groups, 384))).astype(np.float32)
        value = summax(holes, columns, np.empty((groups, groups), np.float32))
        noise = 0.5 * np.sqrt(384) * rng.standard_normal((2, groups, groups))
        before, now = (np.rint((x - value) * 256).astype(np.int32) for x in noise)
        duals = np.zeros(groups, np.int32)
        rows, cols = np.empty(groups, np.int32), np.empty(groups, np.int32)
        assign(before, duals, rows, cols)
        costs = now.astype(np.float64)
        times = _interleaved(
            {
                "scipy": partial(linear_sum_assignment, costs),
                "warm": partial(_warm, now, duals, rows, cols),
            }
        )
        pairs = zip(*times.values(), strict=True)
        yield {
            "groups": groups,
            **{f"{name}_seconds": median(s) for name, s in times.items()},
            "warm_to_scipy": median(s / w for s, w in pairs),
        }


def splits() -> dict[str, Any]:
    """Return the re-splits a second of the window search at 384 rows."""
    import permsearch as ps
    from benchmarks.matrices import matrix

    problem = ps.single(matrix("q0"), "2:4")
    rates = []
    for _ in range(REPEATS + 1):
        result = ps.solve(problem, "window")
        rates.append(35 * result.steps / result.cpu)
    return {"rows": 384, "splits_per_second": median(rates[1:])}


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the tables of this part."""
    del options
    yield "distances", distances()
    yield "assignments", assignments()
    yield "splits", iter([splits()])
