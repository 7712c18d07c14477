"""Noise-free assignments in float32, each confirmed in float64: a cheap finish after 8 bits."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from permsearch.kernels.holes import fill_hole
from permsearch.kernels.jv import assign
from permsearch.kernels.l1 import summax
from permsearch.kernels.value import group_values
from permsearch.stack import Stack

I64 = NDArray[np.int64]

_MOST_GROUPS = 1024  # in an assignment, whose time grows with the cube of the number
_RANGE = 1 << 25  # costs stay below it, as the assignment kernel asks


@njit(cache=True, nogil=True)
def _holes(columns, order, place, n, m, y, a):
    """Take the column at ``place[g]`` out of every group g; fill the hole rows and the columns."""
    width = columns.shape[1]
    scratch = np.empty(((m + 1) // 2 + 1, width), columns.dtype)
    carry = np.empty(width, columns.dtype)
    rest = np.empty(m - 1, np.int64)
    for g in range(place.shape[0]):
        k = 0
        for p in range(g * m, g * m + m):
            if p != place[g]:
                rest[k] = order[p]
                k += 1
        fill_hole(columns, rest, n, scratch, carry, y[g])
        a[g, :] = columns[order[place[g]]]


def finishing_work(groups: int, m: int, rows: int) -> float:
    """Return how many entries `assign_exactly` prices."""
    return m * groups * min(groups, _MOST_GROUPS) * rows


def assign_exactly(stack: Stack, order: I64) -> I64:
    """Return an order that is at least as good.

    One assignment is made for every place of a group, over blocks of 1024 groups at most.
    """
    order = order.copy()
    groups = len(order) // stack.m
    blocks = -(-groups // _MOST_GROUPS)
    for block in range(blocks):
        for place in range(stack.m):
            _assign(stack, order, np.arange(block, groups, blocks) * stack.m + place)
    return order


def _assign(stack: Stack, order: I64, places: I64) -> None:
    """Put the columns at these places back by an exact assignment, if that gains."""
    size, n, m = len(places), stack.n, stack.m
    y = np.empty((size, stack.columns.shape[1]), np.float32)
    a = np.empty_like(y)
    _holes(stack.columns, order, places, n, m, y, a)
    cost = _costs(summax(y, a, np.empty((size, size), np.float32)))
    to_col, to_row = np.empty((2, size), np.int32)
    assign(cost, np.zeros(size, np.int32), to_col, to_row)
    members = order.reshape(-1, m)[places // m]
    moved = members.copy()
    moved[np.arange(size), places % m] = order[places][to_col]
    before, after = (
        group_values(stack.columns, some.ravel(), n, m).sum() for some in (members, moved)
    )
    if after > before:
        order.reshape(-1, m)[places // m] = moved


def _costs(kept: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return integer costs: what is kept, centred over rows and columns, negated and scaled."""
    centred = kept - kept.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    peak = float(np.abs(centred).max())
    scale = _RANGE / peak if peak > 0 else 0.0
    costs: NDArray[np.int32] = np.rint(centred * -scale).astype(np.int32)
    return costs
