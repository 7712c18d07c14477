"""Slow twins of hierarchical N:M: tile by tile, group by group, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.reference import partitions

Matrix: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]


def tiles_of(weight: NDArray[Any], v: int) -> list[NDArray[Any]]:
    """Return the tiles of a weight, tap after tap."""
    taps = [weight[(slice(None), slice(None), *tap)] for tap in np.ndindex(*weight.shape[2:])]
    return [matrix[r : r + v] for matrix in taps for r in range(0, len(matrix), v)]


def strongest(tile: Matrix, count: int) -> list[int]:
    """Return the columns of the largest sums in stored order; ties go to the lower index."""
    sums = [math.fsum(tile[:, c].tolist()) for c in range(tile.shape[1])]
    return sorted(sorted(range(len(sums)), key=lambda c: (-sums[c], c))[:count])


def kept_of(tile: Matrix, order: Sequence[int], n: int, m: int) -> float:
    """Return what a tile keeps whose columns stand in groups in this order."""
    groups = [list(order[g : g + m]) for g in range(0, len(order), m)]
    rows = [row for group in groups for row in tile[:, group].tolist()]
    return math.fsum(value for row in rows for value in sorted(row)[-n:])


def keep_tile(tile: Matrix, order: Sequence[int], n: int, m: int) -> Mask:
    """Return a tile's mask; of equal scores the one earlier in the group stays."""
    mask = np.zeros(tile.shape, dtype=np.bool_)
    for g in range(0, len(order), m):
        group = list(order[g : g + m])
        for r in range(len(tile)):
            for place in sorted(range(m), key=lambda p: (-tile[r, group[p]], p))[:n]:
                mask[r, group[place]] = True
    return mask


def all_orders(columns: int, count: int, m: int) -> Iterator[list[int]]:
    """Yield an order for every choice of columns and every way to group them."""
    for kept in combinations(range(columns), count):
        for split in partitions(kept, m):
            yield [column for group in split for column in group]


def best_of_tile(tile: Matrix, count: int, n: int, m: int) -> float:
    """Return the most that a tile can keep."""
    return max(kept_of(tile, order, n, m) for order in all_orders(tile.shape[1], count, m))


def fits(mask: Mask, count: int, n: int, m: int) -> bool:
    """Decide by trying all whether a tile's mask fits some choice and grouping of columns."""
    for order in all_orders(mask.shape[1], count, m):
        groups = [list(order[g : g + m]) for g in range(0, count, m)]
        inside = all((mask[:, group].sum(axis=1) <= n).all() for group in groups)
        if inside and mask[:, order].sum() == mask.sum():
            return True
    return False
