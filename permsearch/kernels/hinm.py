"""Private columns of a tile of hierarchical N:M: annealed assignments with re-entry.

A step takes one random column out of every group of the tile and fills the holes from these and
from columns that the tile dropped, by an exact assignment under noise: there are more columns
than holes, and those left over are dropped. With hole y and column a a group keeps a constant and
the sum of max(y, a), see `permsearch.kernels.holes`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.holes import fill_hole
from permsearch.kernels.jv import assign
from permsearch.kernels.l1 import summax_tile
from permsearch.kernels.rng import below

_RANGE = np.float32(1 << 23)  # costs stay below it, as the assignment kernel asks


@njit(cache=True, nogil=True)
def fill_costs(y, columns, candidates, worth):
    """Fill the sums of maxima of every hole and every candidate; an even number of holes pays."""
    count, width = y.shape[0], candidates.shape[0]
    sums = np.empty(8, np.float32)
    for i in range(0, count, 2):
        i1 = min(i + 1, count - 1)
        for j in range(0, width, 4):
            j1, j2, j3 = min(j + 1, width - 1), min(j + 2, width - 1), min(j + 3, width - 1)
            summax_tile(
                y[i],
                y[i1],
                columns[candidates[j]],
                columns[candidates[j1]],
                columns[candidates[j2]],
                columns[candidates[j3]],
                sums,
            )
            for k in range(min(4, width - j)):
                worth[i, j + k] = sums[k]
                worth[i1, j + k] = sums[4 + k]


@njit(cache=True, nogil=True)
def _take_out(columns, groups, n, hole, y, candidates, scratch, rest, rng):
    """Choose a hole in every group, fill what it needs, and list what was in it."""
    levels, carry = scratch
    m = groups.shape[1]
    for g in range(groups.shape[0]):
        hole[g] = below(rng, m)
        at = 0
        for q in range(m):
            if q == hole[g]:
                candidates[g] = groups[g, q]
            else:
                rest[at] = groups[g, q]
                at += 1
        if n < m:  # where all stay, whatever comes in counts in full
            fill_hole(columns, rest, n, levels, carry, y[g])


@njit(cache=True, nogil=True)
def _draw(dropped, count, rng):
    """Bring ``count`` random entries to the front."""
    for k in range(count):
        at = k + below(rng, dropped.shape[0] - k)
        dropped[k], dropped[at] = dropped[at], dropped[k]


@njit(cache=True, nogil=True, fastmath=True)
def _noisy_costs(worth, noise, bank, rng, cost):
    """Fill the integer costs: what a row has above a candidate, and noise."""
    count, width = worth.shape
    peak = np.float32(0)
    for i in range(count):
        for j in range(width):
            peak = max(peak, abs(worth[i, j] - worth[i, i]))
    peak += np.float32(8) * noise
    scale = _RANGE / peak if peak > 0 else np.float32(0)
    span = bank.shape[0] - width
    for i in range(count):
        own = worth[i, i]
        offset = below(rng, span) if noise > 0 else 0
        normals = bank[offset : offset + width]
        row, out = worth[i], cost[i]
        if noise > 0:
            for j in range(width):
                out[j] = np.int32((own - row[j] + noise * normals[j]) * scale)
        else:  # whatever the bank holds, zero times it need not be zero
            for j in range(width):
                out[j] = np.int32((own - row[j]) * scale)


@njit(cache=True, nogil=True)
def spread_of(worth, count):
    """Return the standard deviation of the first columns less the means of their rows."""
    total = 0.0
    for i in range(count):
        mean = 0.0
        for j in range(count):
            mean += worth[i, j]
        mean /= count
        for j in range(count):
            total += (worth[i, j] - mean) ** 2
    return np.sqrt(total / (count * count))


@njit(cache=True, nogil=True)
def tile_steps(columns, groups, dropped, n, entering, noises, bank, values, best, rng):
    """Do one step per noise on a tile.

    Parameters
    ----------
    columns : float32 array (C, V)
        The tile's part of all columns.
    groups : int64 array (G, m)
        The tile's columns in groups; updated.
    dropped : int64 array (C - G m,)
        The other columns; updated.
    n : int
        Kept of every group.
    entering : int
        Dropped columns that may enter in a step, drawn at random.
    noises : float32 array (K,)
        Step by step, in units of the spread that ``values`` knows.
    bank : float32 array
        Standard normals, many more than columns.
    values : float64 array (3,)
        What the groups keep, what the best ones did, and the unit of the noise (measured here
        where it is negative); updated.
    best : int64 array (G, m)
        The best groups so far; updated.
    rng : uint64 array (1,)
        State of the generator; updated.
    """
    count, m = groups.shape
    v = columns.shape[1]
    entering = min(entering, dropped.shape[0])
    width = count + entering
    hole = np.empty(count, np.int64)
    rest = np.empty(m - 1, np.int64)
    y = np.zeros((count, v), np.float32)
    scratch = (np.empty(((m + 1) // 2 + 1, v), np.float32), np.empty(v, np.float32))
    candidates = np.empty(width, np.int64)
    worth = np.empty((count, width), np.float32)
    cost = np.empty((count, width), np.int32)
    duals = np.empty(width, np.int32)
    to_col, to_row = np.empty(count, np.int32), np.empty(width, np.int32)
    for noise in noises:
        _take_out(columns, groups, n, hole, y, candidates, scratch, rest, rng)
        _draw(dropped, entering, rng)
        candidates[count:] = dropped[:entering]
        fill_costs(y, columns, candidates, worth)
        if values[2] < 0:
            values[2] = spread_of(worth, count)
        _noisy_costs(worth, np.float32(noise * values[2]), bank, rng, cost)
        duals[:] = 0
        assign(cost, duals, to_col, to_row)
        gain = 0.0
        for g in range(count):
            gain += np.float64(worth[g, to_col[g]]) - np.float64(worth[g, g])
        if noise == 0 and gain <= 0:
            continue
        values[0] += gain
        for g in range(count):
            groups[g, hole[g]] = candidates[to_col[g]]
        at = 0
        for j in range(width):
            if to_row[j] < 0:
                dropped[at] = candidates[j]
                at += 1
        if values[0] > values[1]:
            values[1] = values[0]
            best[:] = groups
