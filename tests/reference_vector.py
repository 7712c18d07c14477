"""Slow twin of vector-wise sparsity, written to be read; nothing here calls the library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def as_columns(weight: NDArray[Any]) -> NDArray[Any]:
    """Return one row per output channel: tap after tap, the input channels of each."""
    taps = list(np.ndindex(*weight.shape[2:]))
    return np.array(
        [
            [weight[(out, column, *tap)] for tap in taps for column in range(weight.shape[1])]
            for out in range(weight.shape[0])
        ]
    )


def vectors(weight: NDArray[Any], v: int) -> dict[tuple[int, int], float]:
    """Return the sum of every vector by group of rows and column."""
    rows = as_columns(weight)
    return {
        (group, column): math.fsum(float(rows[group * v + i][column]) for i in range(v))
        for group in range(len(rows) // v)
        for column in range(len(rows[0]))
    }


def kept_vectors(
    weight: NDArray[Any], v: int, kept: float, *, by_group: bool
) -> list[tuple[int, int]]:
    """Return the vectors that stay; of equal sums the lower index does."""
    sums = vectors(weight, v)
    best = sorted(sums, key=lambda place: (-sums[place], place))
    if not by_group:
        return best[: math.floor(kept * len(best) + 1e-9)]
    chosen = []
    for group in sorted({place[0] for place in best}):
        own = [place for place in best if place[0] == group]
        chosen += own[: math.floor(kept * len(own) + 1e-9)]
    return chosen


def retained_vectors(weight: NDArray[Any], v: int, kept: float, *, by_group: bool) -> float:
    """Return the sum of the vectors that stay."""
    sums = vectors(weight, v)
    return math.fsum(sums[place] for place in kept_vectors(weight, v, kept, by_group=by_group))


def keep_vectors(weight: NDArray[Any], v: int, kept: float, *, by_group: bool) -> Mask:
    """Return the mask of the vectors that stay."""
    mask = np.zeros(weight.shape, dtype=bool)
    taps = list(np.ndindex(*weight.shape[2:]))
    for group, place in kept_vectors(weight, v, kept, by_group=by_group):
        tap, column = divmod(place, weight.shape[1])
        for i in range(v):
            mask[(group * v + i, column, *taps[tap])] = True
    return mask
