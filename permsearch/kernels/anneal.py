"""Annealed assignment on 8-bit columns.

A step takes one random column out of every group, prices every column in every hole (one matrix
of absolute differences), adds Gaussian noise, and puts the columns back by an exact assignment,
always accepting. As the noise falls, the order settles. One dual per column of the matrix warms
the assignment up.

Values count half levels: with hole y and column a, ``2 max(y, a) = y + a + |y - a|``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.holes import fill_hole
from permsearch.kernels.jv import assign
from permsearch.kernels.rng import below, next_bits
from permsearch.kernels.sad import sad_serial

_DUAL_RATE = np.float32(0.2)


@njit(cache=True, nogil=True)
def _open_holes(levels, order, shape, rng, place, rest, y, a, scratch):  # type: ignore[no-untyped-def]
    """Take a random column out of every group; fill the holes' and the columns' byte rows."""
    n, m = shape
    for g in range(place.shape[0]):
        place[g] = g * m + below(rng, m)
        k = 0
        for p in range(g * m, g * m + m):
            if p != place[g]:
                rest[k] = order[p]
                k += 1
        fill_hole(levels, rest, n, scratch[0], scratch[1], y[g])
        a[g, :] = levels[order[place[g]]]


@njit(cache=True, nogil=True, fastmath=True)
def _noisy_costs(sad, noise, weights, bank, rng, cost):  # type: ignore[no-untyped-def]
    """``cost = noise * weight of the column * a normal - sad``."""
    groups = sad.shape[0]
    span = bank.shape[0] - groups
    for i in range(groups):
        offset = below(rng, span)
        normals = bank[offset : offset + groups]
        row, out = sad[i], cost[i]
        for j in range(groups):
            out[j] = np.int32(noise * weights[j] * normals[j]) - row[j]


@njit(cache=True, nogil=True)
def anneal_sweep(levels, shape, noises, weights, bank, order, best, duals, values, rng):  # type: ignore[no-untyped-def]
    """Do one step per entry of ``noises``.

    Parameters
    ----------
    levels : uint8 array (C, R)
        `quantise`d columns.
    shape : tuple
        n and m.
    noises : float32 array (K,)
        Standard deviation of the noise in half levels, step by step.
    weights : float32 array (C,)
        Each column's share of the noise, about 1.
    bank : float32 array
        Standard normals, many more than groups.
    order, best : int64 arrays (C,)
        Current and best order; updated.
    duals : float32 array (C,)
        One dual per column; updated.
    values : int64 array (2,)
        Value of the current order less the start's, and of the best, in half levels; updated.
    rng : uint64 array (1,)
        State of the generator; updated.
    """
    columns, width = levels.shape
    m = shape[1]
    groups = columns // m
    place = np.empty(groups, np.int64)
    rest = np.empty(m - 1, np.int64)
    y = np.empty((groups, width), np.uint8)
    a = np.empty((groups, width), np.uint8)
    scratch = (np.empty(((m + 1) // 2 + 1, width), np.uint8), np.empty(width, np.uint8))
    sad = np.empty((groups, groups), np.int32)
    cost = np.empty((groups, groups), np.int32)
    taken = np.empty(groups, np.int64)
    v = np.empty(groups, np.int32)
    share = np.empty(groups, np.float32)
    to_col = np.empty(groups, np.int32)
    to_row = np.empty(groups, np.int32)
    for noise in noises:
        _open_holes(levels, order, shape, rng, place, rest, y, a, scratch)
        sad_serial(y, a, sad)
        for g in range(groups):
            taken[g] = order[place[g]]
            v[g] = np.int32(duals[taken[g]])
            share[g] = weights[taken[g]]
        _noisy_costs(sad, noise, share, bank, rng, cost)
        assign(cost, v, to_col, to_row)
        gain = np.int64(0)
        centre = np.float32(0)
        for g in range(groups):
            gain += sad[g, to_col[g]] - sad[g, g]
            centre += v[g]
        centre /= groups
        for g in range(groups):
            old = duals[taken[g]]
            duals[taken[g]] = old + _DUAL_RATE * (np.float32(v[g]) - centre - old)
        if noise > 0 or gain > 0:
            values[0] += gain
            for g in range(groups):
                order[place[g]] = taken[to_col[g]]
            if values[0] > values[1]:
                values[1] = values[0]
                best[:] = order
