"""The holes of listed groups in bytes: what prices all exchanges of one column at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from permsearch.kernels.holes import fill_hole
from permsearch.kernels.sad import sad_pair


@njit(cache=True, nogil=True)
def byte_holes(levels: Any, groups: Any, n: int, holes: Any, heads: Any) -> None:
    """Fill the hole of every place of every group, and what the group keeps without it.

    Parameters
    ----------
    levels : uint8 array, shape (C, R), padded
    groups : int64 array, shape (K, m)
    n : int
    holes : uint8 array, shape (K m, R)
        Filled: the n-th largest of the other m - 1 columns.
    heads : float64 array, shape (K m,)
        Filled: with column c in the hole the group keeps (heads + sums[c] + sad(hole, c)) / 2.
    """
    m = groups.shape[1]
    width = levels.shape[1]
    scratch, carry = np.empty(((m + 1) // 2 + 1, width), np.uint8), np.empty(width, np.uint8)
    above = np.empty((1, width), np.uint8)
    zero = np.zeros((1, width), np.uint8)
    rest = np.empty(m - 1, np.int64)
    for k in range(groups.shape[0]):
        for place in range(m):
            for j in range(m - 1):
                rest[j] = groups[k, j + 1 if j >= place else j]
            hole = holes[k * m + place]
            fill_hole(levels, rest, n, scratch, carry, hole)

            heads[k * m + place] = _above(levels, rest, n, hole, above, zero)


@njit(cache=True, nogil=True)
def _above(levels: Any, rest: Any, n: int, hole: Any, above: Any, zero: Any) -> float:
    """Return twice the sum of the n - 1 largest of the columns, plus the sum of the n-th."""
    width = hole.shape[0]
    total = 0
    for r in range(width):
        total += hole[r] * (2 * n - 1)
    for j in range(rest.shape[0]):
        column = levels[rest[j]]
        for r in range(width):
            above[0, r] = column[r] - hole[r] if column[r] > hole[r] else 0
        total += 2 * sad_pair(above, 0, zero, 0)
    return total
