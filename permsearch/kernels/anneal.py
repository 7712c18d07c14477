"""Annealed assignment on 8-bit columns.

A step takes one random column out of every group, prices every column in every hole (one matrix
of absolute differences), adds Gaussian noise, and puts the columns back by an exact assignment,
always accepting. As the noise falls, the order settles. One dual per column of the matrix warms
the assignment up.

Prices depend on what is left in a group alone. Once a group has rested for m * m steps, the
prices of all columns in a hole of it are computed together and kept until it changes: when few
groups change, which is most of the time, a step is little more than a look-up and an assignment.
The prices are exact integers, so keeping them changes no order.

Values count half levels: with hole y and column a, ``2 max(y, a) = y + a + |y - a|``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from permsearch.kernels.holes import fill_levels, pick_level
from permsearch.kernels.jv import assign
from permsearch.kernels.rng import below
from permsearch.kernels.sad import padded_bytes, sad_serial

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DUAL_RATE = np.float32(0.2)
_BATCH = 12  # holes priced together; a multiple of the tile's rows


@njit(cache=True, nogil=True)
def _hole(levels, shape, order, place, tops, scratch, y):
    """Fill ``y`` for the hole at ``place``, from the two levels kept for its group."""
    n, m, _ = shape
    two, ready = tops
    g = place // m
    t, u = two[2 * g], two[2 * g + 1]
    if not ready[g]:
        fill_levels(levels, order[g * m : g * m + m], n, scratch[0], scratch[1], t, u)
        ready[g] = True
    pick_level(levels[order[place]], t, u, y)


@njit(cache=True, nogil=True)
def _price_all(levels, y, holes, count, wide, prices, known):
    """Price every column in the first ``count`` of the listed holes, and keep that."""
    sad_serial(y[:count], levels, wide[:count])
    for k in range(count):
        prices[holes[k], :] = wide[k]
        known[holes[k]] = True


@njit(cache=True, nogil=True)
def _price_rested(levels, shape, order, place, step, memory, work):
    """Price all columns in the unknown holes of groups that have rested long enough."""
    m = shape[1]
    prices, known, changed, tops = memory
    y, scratch, wide, holes = work
    turns = order.shape[0] // place.shape[0]  # steps between two looks at a hole, about
    count = 0
    for g in range(place.shape[0]):
        rested = step - changed[place[g] // m] >= turns * turns
        if known[place[g]] or not rested or prices.shape[0] == 0:
            continue
        _hole(levels, shape, order, place[g], tops, scratch, y[count])
        holes[count] = place[g]
        count += 1
        if count == _BATCH:
            _price_all(levels, y, holes, count, wide, prices, known)
            count = 0
    if count:
        _price_all(levels, y, holes, count, wide, prices, known)


@njit(cache=True, nogil=True)
def _price(levels, shape, order, place, taken, memory, work, a, fresh, sad):
    """Fill ``sad[g, h]`` for the column taken from group h in the hole of group g."""
    prices, known, _, tops = memory
    y, scratch = work[0], work[1]
    groups = place.shape[0]
    count = 0
    for g in range(groups):
        if known[place[g]]:
            row, out = prices[place[g]], sad[g]
            for h in range(groups):
                out[h] = row[taken[h]]
            continue
        _hole(levels, shape, order, place[g], tops, scratch, y[count])
        count += 1
    if count == 0:
        return
    for g in range(groups):
        a[g, :] = levels[taken[g]]
    sad_serial(y[:count], a, fresh[:count])
    count = 0
    for g in range(groups):
        if not known[place[g]]:
            sad[g, :] = fresh[count]
            count += 1


@njit(cache=True, nogil=True, fastmath=True)
def _noisy_costs(sad, noise, weights, bank, rng, cost):
    """``cost = noise * weight of the column * a normal - sad``, less what a row has in common."""
    groups = sad.shape[0]
    span = bank.shape[0] - groups
    for i in range(groups):
        offset = below(rng, span)
        normals = bank[offset : offset + groups]
        row, out, own = sad[i], cost[i], sad[i, i]
        for j in range(groups):
            out[j] = np.int32(noise * weights[j] * normals[j]) + (own - row[j])


@njit(cache=True, nogil=True)
def _move(order, m, place, taken, to_col, memory, step):
    """Put the columns back as assigned; what was known of the other holes of a group is void."""
    _, known, changed, tops = memory
    for k in range(place.shape[0]):
        if to_col[k] == k:
            continue
        g = place[k] // m
        tops[1][g] = False
        order[place[k]] = taken[to_col[k]]
        changed[g] = step
        for p in range(g * m, g * m + m):
            known[p] = known[p] and p == place[k]


@njit(cache=True, nogil=True)
def _draw(rng, groups, m, place):
    """Fill ``place`` with a random place in each of as many different groups, drawn at random."""
    count = place.shape[0]
    first, stride = 0, 1
    if count < groups:  # every stride that has no divisor in common with the number visits all
        first = below(rng, groups)
        stride = 1 + below(rng, groups - 1)
        while _divisor(stride, groups) > 1:
            stride = 1 + below(rng, groups - 1)
    g = first
    for k in range(count):
        place[k] = g * m + below(rng, m)
        g = (g + stride) % groups


@njit(cache=True, nogil=True)
def _divisor(a, b):
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


def anneal_memory(levels: NDArray[np.uint8], m: int, *, prices: bool = True) -> tuple[Any, ...]:
    """Return what sweeps remember of an order so as not to compute it again.

    Parameters
    ----------
    levels : uint8 array (C, R)
    m : int
    prices : bool
        Whether to keep prices of all columns in holes: C * C of four bytes.

    Returns
    -------
    tuple
        Prices, int32 (C, C) or (0, 0); which holes they are known of, bool (C,); the step in which
        each group last changed, int64 (C / m,); and two levels of each group with a bool (C / m,)
        that says whether they are up to date.
    """
    columns, width = levels.shape
    groups = columns // m
    size = columns if prices else 0
    return (
        np.zeros((size, size), np.int32),
        np.zeros(columns, np.bool_),
        np.zeros(groups, np.int64),
        (padded_bytes(2 * groups, width), np.zeros(groups, np.bool_)),
    )


@njit(cache=True, nogil=True)
def anneal_sweep(levels, shape, noises, weights, bank, order, best, duals, counts, rng, memory):
    """Do one step per entry of ``noises``.

    Parameters
    ----------
    levels : uint8 array (C, R)
        `quantise`d columns.
    shape : tuple
        n, m, and the number of groups in a step.
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
    counts : int64 array (3,)
        Value of the current order less the start's and the same of the best, in half levels, and
        the steps done; updated.
    rng : uint64 array (1,)
        State of the generator; updated.
    memory : tuple
        From `anneal_memory`; updated, never changes the orders.
    """
    columns, width = levels.shape
    m = shape[1]
    groups = shape[2]
    place = np.empty(groups, np.int64)
    taken = np.empty(groups, np.uint32)  # unsigned 32-bit indices make the look-ups vector code
    a = np.empty((groups, width), np.uint8)
    work = (
        np.empty((max(groups, _BATCH), width), np.uint8),
        (np.empty((shape[0] + 1, width), np.uint8), np.empty(width, np.uint8)),
        np.empty((_BATCH, columns), np.int32),
        np.empty(_BATCH, np.int64),
    )
    fresh = np.empty((groups, groups), np.int32)
    sad = np.empty((groups, groups), np.int32)
    v = np.empty(groups, np.int32)
    share = np.empty(groups, np.float32)
    to_col = np.empty(groups, np.int32)
    to_row = np.empty(groups, np.int32)
    for noise in noises:
        step = counts[2]
        counts[2] += 1
        _draw(rng, columns // m, m, place)
        for g in range(groups):
            taken[g] = order[place[g]]
            v[g] = np.int32(duals[taken[g]])
            share[g] = weights[taken[g]]
        _price_rested(levels, shape, order, place, step, memory, work)
        _price(levels, shape, order, place, taken, memory, work, a, fresh, sad)
        _noisy_costs(sad, noise, share, bank, rng, fresh)
        assign(fresh, v, to_col, to_row)
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
            counts[0] += gain
            _move(order, m, place, taken, to_col, memory, step)
            if counts[0] > counts[1]:
                counts[1] = counts[0]
                best[:] = order
