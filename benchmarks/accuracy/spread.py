"""Means over seeds with their spread, and differences that are paired over items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.accuracy.base import Cell, Measured

Results = Mapping[Cell, Measured]
Pick = Callable[[Cell], bool]


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of some cells.

    Attributes
    ----------
    mean
        Over items and cells.
    spread
        Standard deviation over the cells' means; None for a single cell.
    cells
        How many there are.
    """

    mean: float
    spread: float | None
    cells: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Of two groups of cells, the first less the second.

    Attributes
    ----------
    mean
        Of the differences of items.
    error
        Standard error of that mean over items; spread over seeds is not in it.
    """

    mean: float
    error: float


def summary(results: Results, measure: str, pick: Pick) -> Summary | None:
    """Return the mean over the cells that are picked; None where there are none."""
    means = [float(np.mean(r.items[measure])) for c, r in results.items() if pick(c)]
    if not means:
        return None
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return Summary(float(np.mean(means)), spread, len(means))


def difference(results: Results, measure: str, one: Pick, other: Pick) -> Difference | None:
    """Return the paired difference of two groups of cells.

    Only calibration seeds that both groups have count; draws are averaged within each seed first,
    then seeds, item by item. None where no seed is in both.
    """
    mine, theirs = (_by_seed(results, measure, pick) for pick in (one, other))
    shared = sorted(mine.keys() & theirs.keys())
    if not shared:
        return None
    items = np.mean([mine[seed] - theirs[seed] for seed in shared], axis=0)
    error = float(np.std(items, ddof=1)) / math.sqrt(len(items)) if len(items) > 1 else math.nan
    return Difference(float(np.mean(items)), error)


def _by_seed(results: Results, measure: str, pick: Pick) -> dict[int, np.ndarray]:
    found: dict[int, list[Sequence[float]]] = {}
    for cell, measured in results.items():
        if pick(cell):
            found.setdefault(cell.calibration_seed, []).append(measured.items[measure])
    return {seed: np.mean(np.asarray(rows, float), axis=0) for seed, rows in found.items()}
