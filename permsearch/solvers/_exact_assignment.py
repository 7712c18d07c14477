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

_RANGE = 1 << 25  # costs stay below it, as the assignment kernel asks


@njit(cache=True, nogil=True)
def _holes(columns, order, place, n, m, y, a):  # type: ignore[no-untyped-def]
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


def finishing_steps(m: int) -> int:
    """Return how many assignments a finish takes: every place of a group once."""
    return m


def assign_exactly(stack: Stack, order: I64) -> I64:
    """Return an order that is at least as good, after one assignment for every place of a group."""
    order = order.copy()
    groups = len(order) // stack.m
    y = np.empty((groups, stack.columns.shape[1]), np.float32)
    a = np.empty_like(y)
    kept = np.empty((groups, groups), np.float32)
    duals = np.zeros(groups, np.int32)
    to_col, to_row = np.empty((2, groups), np.int32)
    value = group_values(stack.columns, order, stack.n, stack.m).sum()
    for place in range(finishing_steps(stack.m)):
        places = np.arange(groups) * stack.m + place
        _holes(stack.columns, order, places, stack.n, stack.m, y, a)
        cost = _costs(summax(y, a, kept))
        assign(cost, duals, to_col, to_row)
        moved = order.copy()
        moved[places] = order[places][to_col]
        new = group_values(stack.columns, moved, stack.n, stack.m).sum()
        if new > value:
            order, value = moved, new
    return order


def _costs(kept: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return integer costs: what is kept, centred over rows and columns, negated and scaled."""
    centred = kept - kept.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    peak = float(np.abs(centred).max())
    scale = _RANGE / peak if peak > 0 else 0.0
    costs: NDArray[np.int32] = np.rint(centred * -scale).astype(np.int32)
    return costs
