"""Annealed exchange of rows between groups that keep columns in common, on bytes.

A group of rows keeps a column where the sum of its rows there exceeds a price, and is worth what
the sums exceed it by. Take one row out of a group: with row b in its place the group is worth
``sum over columns of max(s - a + b - price, 0)``, a the row taken out and s the group's sums. With
``t = price - s + a``, and since b >= 0, that is

    sum of max(-t, 0)  +  sum of max(b - max(t, 0), 0),

where the first term is the hole's own. The second is half of ``|b - t| + b - t`` for t clipped to
bytes, so that sums of absolute differences of bytes price every row in every hole. A step takes
one row out of every group and puts all back by an exact assignment under noise.

Values count half levels. The prices are those of the orders they were set for: in between, values
are upper limits of what the best columns at the group's own number of kept ones are worth.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.jv import assign
from permsearch.kernels.rng import below
from permsearch.kernels.sad import sad_serial

_DUAL_RATE = np.float32(0.5)
_NEVER = np.int32(1 << 30)


@njit(cache=True, nogil=True)
def group_sums(levels, order, first, sums):
    """Fill int32 ``sums[g]`` with the sum of rows ``order[first[g] : first[g + 1]]``."""
    for g in range(sums.shape[0]):
        total = sums[g]
        total[:] = 0
        for i in range(first[g], first[g + 1]):
            row = levels[order[i]]
            for c in range(row.shape[0]):
                total[c] += np.int32(row[c])


@njit(cache=True, nogil=True)
def _tally(sums, width, height, tallest, tally):
    """Count the entries of a group by their sum, each as many times as the group has rows."""
    for c in range(width):
        tally[np.int64(sums[c]) * tallest // height] += height


@njit(cache=True, nogil=True)
def _price_of(tally, area):
    """Return the least price at which no more than the area is kept."""
    level = tally.shape[0] - 1
    taken = np.int64(0)
    while level > 0 and taken + tally[level] <= area:
        taken += tally[level]
        level -= 1
    return level


@njit(cache=True, nogil=True)
def set_prices(sums, width, first, live, area, together, prices):
    """Set the prices at which groups keep as much as they may; return the value in levels.

    Groups that are dropped get a price that no sum reaches.

    Parameters
    ----------
    sums : int32 array (G, W)
    width : int
        Columns that count; those behind them are padding.
    first : int64 array (G + 1,)
        Where each group begins in the order.
    live : int
        Groups that keep anything; those behind them are dropped.
    area : int
        Entries kept: of all groups together, or of each.
    together : bool
    prices : int32 array (G,)
        Filled.
    """
    prices[live:] = _NEVER
    tallest = np.int64(0)
    for g in range(live):
        tallest = max(tallest, first[g + 1] - first[g])
    most = np.int64(0)
    for g in range(live):
        for c in range(width):
            most = max(most, np.int64(sums[g, c]) * tallest // (first[g + 1] - first[g]))
    tally = np.zeros(most + 1, np.int64)
    value = 0.0
    for g in range(live):
        height = first[g + 1] - first[g]
        _tally(sums[g], width, height, tallest, tally)
        if not together:
            price = _price_of(tally, area)
            tally[:] = 0
            prices[g] = price
            value += price * (area / height)
    if together:
        price = _price_of(tally, area)
        for g in range(live):
            prices[g] = price * (first[g + 1] - first[g]) // tallest
        value = price * (area / tallest)
    for g in range(live):
        above = np.int64(0)
        for c in range(width):
            above += max(np.int64(0), np.int64(sums[g, c]) - prices[g])
        value += above
    return value


@njit(cache=True, nogil=True)
def _hole(sums, row, price, t):
    """Fill bytes ``t`` with what a row needs in a column before it counts."""
    for c in range(t.shape[0]):
        x = price - sums[c] + np.int32(row[c])
        t[c] = np.uint8(max(np.int32(0), min(x, np.int32(255))))


@njit(cache=True, nogil=True)
def _replace(sums, old, new):
    for c in range(sums.shape[0]):
        sums[c] += np.int32(new[c]) - np.int32(old[c])


@njit(cache=True, nogil=True)
def _divisor(a, b):
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


@njit(cache=True, nogil=True)
def _draw(rng, first, place, group):
    """Draw as many different groups as there are places, and a random place in each."""
    groups, count = first.shape[0] - 1, place.shape[0]
    g, stride = 0, 1
    if count < groups:  # every stride that has no divisor in common with the number visits all
        g = below(rng, groups)
        stride = 1 + below(rng, groups - 1)
        while _divisor(stride, groups) > 1:
            stride = 1 + below(rng, groups - 1)
    for k in range(count):
        group[k] = g
        place[k] = first[g] + below(rng, first[g + 1] - first[g])
        g = (g + stride) % groups


@njit(cache=True, nogil=True)
def _noisy_costs(sad, mass, taken, noise, bank, rng, cost):
    """``cost = noise * a normal - sad - mass of the row``, less what a hole has in common."""
    count = taken.shape[0]
    span = bank.shape[0] - count
    for i in range(count):
        offset = below(rng, span)
        normals = bank[offset : offset + count]
        row, out = sad[i], cost[i]
        own = sad[i, i] + mass[taken[i]]
        for j in range(count):
            out[j] = np.int32(noise * normals[j]) + (own - row[j] - mass[taken[j]])


@njit(cache=True, nogil=True)
def exchange_sweep(levels, mass, first, order, sums, prices, noises, bank, duals, count, rng):
    """Do one step per entry of ``noises``; return how many rows moved.

    Parameters
    ----------
    levels : uint8 array (R, W)
        Rows in levels, padded as `permsearch.kernels.sad` needs it.
    mass : int32 array (R,)
        Their sums.
    first : int64 array (G + 1,)
        Where each group begins in the order.
    order : int64 array (R,)
        Updated.
    sums : int32 array (G, W)
        Of the groups; updated.
    prices : int32 array (G,)
        From `set_prices`.
    noises : float32 array (K,)
        Standard deviation of the noise in half levels, step by step; at 0 only what gains moves.
    bank : float32 array
        Standard normals, many more than groups.
    duals : float32 array (R,)
        One dual per row, which starts the assignment; updated.
    count : int
        Groups in a step, at most all of them.
    rng : uint64 array (1,)
        State of the generator; updated.
    """
    width = levels.shape[1]
    place = np.empty(count, np.int64)
    group = np.empty(count, np.int64)
    taken = np.empty(count, np.int64)
    t = np.empty((count, width), np.uint8)
    a = np.empty((count, width), np.uint8)
    sad = np.empty((count, count), np.int32)
    cost = np.empty((count, count), np.int32)
    v = np.empty(count, np.int32)
    to_col = np.empty(count, np.int32)
    to_row = np.empty(count, np.int32)
    moved = 0
    for noise in noises:
        _draw(rng, first, place, group)
        for k in range(count):
            r = order[place[k]]
            taken[k] = r
            v[k] = np.int32(duals[r])
            a[k, :] = levels[r]
            _hole(sums[group[k]], levels[r], prices[group[k]], t[k])
        sad_serial(t, a, sad)
        _noisy_costs(sad, mass, taken, noise, bank, rng, cost)
        assign(cost, v, to_col, to_row)
        gain = np.int64(0)
        centre = np.float32(0)
        for k in range(count):
            gain += sad[k, to_col[k]] - sad[k, k]
            centre += v[k]
        centre /= count
        for k in range(count):
            old = duals[taken[k]]
            duals[taken[k]] = old + _DUAL_RATE * (np.float32(v[k]) - centre - old)
        if noise > 0 or gain > 0:
            for k in range(count):
                h = to_col[k]
                if h != k:
                    moved += 1
                    _replace(sums[group[k]], a[k], a[h])
                    order[place[k]] = taken[h]
    return moved


@njit(cache=True, nogil=True)
def anneal_groups(levels, mass, shape, order, best, values, noises, work, rng):
    """Do one step per entry of ``noises``; keep the best order at the times prices are set.

    Parameters
    ----------
    levels, mass : arrays
        As in `exchange_sweep`.
    shape : tuple
        As in `set_prices`: width, first, live, area, together; then the groups in a step, and the
        steps between two settings of the prices.
    order, best : int64 arrays (R,)
        Current and best order; updated.
    values : float64 array (1,)
        Value of the best order in levels; updated.
    noises : float32 array (K,)
    work : tuple
        ``sums`` of the order, ``prices``, ``bank`` and ``duals`` as in `exchange_sweep`.
    rng : uint64 array (1,)
        State of the generator; updated.
    """
    width, first, live, area, together, count, pace = shape
    sums, prices, bank, duals = work
    for at in range(0, noises.shape[0], pace):
        value = set_prices(sums, width, first, live, area, together, prices)
        if value > values[0]:
            values[0] = value
            best[:] = order
        part = noises[at : at + pace]
        exchange_sweep(levels, mass, first, order, sums, prices, part, bank, duals, count, rng)
    value = set_prices(sums, width, first, live, area, together, prices)
    if value > values[0]:
        values[0] = value
        best[:] = order
