"""Exact set partition of few columns into groups, by dynamic programming over subsets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from permsearch.kernels.value import group_value


@njit(cache=True, nogil=True)
def next_subset(bits: int) -> int:
    """Return the next larger integer with as many set bits."""
    low = bits & -bits
    high = bits + low
    return high | (((bits ^ high) >> 2) // low)


@njit(cache=True, nogil=True)
def subset_values(columns: NDArray[Any], n: int, m: int) -> NDArray[Any]:
    """Return the value of every group of `m` columns at its bit mask, zero elsewhere."""
    count = columns.shape[0]
    values = np.zeros(1 << count, dtype=np.float64)
    members = np.empty(m, dtype=np.int64)
    bits = (1 << m) - 1
    while bits < 1 << count:
        k = 0
        for c in range(count):
            if bits >> c & 1:
                members[k] = c
                k += 1
        values[bits] = group_value(columns, members, n)
        bits = next_subset(bits)
    return values


@njit(cache=True, nogil=True)
def best_partition(values: NDArray[Any], count: int, m: int) -> NDArray[Any]:
    """Return the order (groups of `m` consecutive positions) of the highest total value.

    `values` is what `subset_values` returns. best[used] is the highest value of grouping the
    columns in `used`; the group added last is the one that holds its lowest column, so each
    partition is counted once. Time is 2^count times the groups with a given column.
    """
    best = np.full(1 << count, -1.0)
    choice = np.zeros(1 << count, dtype=np.int64)
    best[0] = 0.0
    for used in range(1, 1 << count):
        low = used & -used
        rest = used ^ low
        others = rest  # every subset of the rest, largest first
        while others:
            group = others | low
            if values[group] > 0.0 or _popcount(group) == m:
                left = best[used ^ group]
                if left >= 0.0 and left + values[group] > best[used]:
                    best[used] = left + values[group]
                    choice[used] = group
            others = (others - 1) & rest
    order = np.empty(count, dtype=np.int64)
    used = (1 << count) - 1
    position = 0
    while used:
        for c in range(count):
            if choice[used] >> c & 1:
                order[position] = c
                position += 1
        used ^= choice[used]
    return order


@njit(cache=True, nogil=True)
def _popcount(bits: int) -> int:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count
