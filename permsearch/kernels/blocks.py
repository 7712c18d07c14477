"""Annealing by swaps of the rows or the columns of a matrix whose best blocks stay.

One axis at a time: its *items* (rows, say) stand in an order, and consecutive ones form groups.
The other axis does not move meanwhile, so that an item is its sums over that axis's groups, and a
block is the sum of a group's items. Every block has the same price; the value of a group is the
sum of what its blocks exceed the price by. With the price of the K-th largest block, that and the
price times K is the value itself, and it is at least the value afterwards.

A proposal then costs two passes over the groups of the other axis, an accepted one no more.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from permsearch.kernels.rng import below, unit


@njit(cache=True, nogil=True)
def item_sums(across, order, size, items):
    """Fill the items of one axis with their sums over the groups of the other.

    Parameters
    ----------
    across : float32 array (P, taps, Q)
        Scores, the other axis first.
    order : int64 array (P,)
        Order of the other axis.
    size : int
        Places of a group of the other axis.
    items : float32 array (Q, taps * P / size)
        Filled; the groups of a tap are consecutive.
    """
    groups = order.shape[0] // size
    taps, count = across.shape[1], across.shape[2]
    line = np.empty(count, np.float32)
    for t in range(taps):
        for g in range(groups):
            line[:] = across[order[g * size], t]
            for k in range(1, size):
                row = across[order[g * size + k], t]
                for q in range(count):
                    line[q] += row[q]
            for q in range(count):
                items[q, t * groups + g] = line[q]


@njit(cache=True, nogil=True)
def group_sums(items, order, size, blocks):
    """Fill blocks (groups, L) with the sums of the groups' items (count, L), all float32."""
    for g in range(blocks.shape[0]):
        line = blocks[g]
        line[:] = items[order[g * size]]
        for k in range(1, size):
            row = items[order[g * size + k]]
            for h in range(line.shape[0]):
                line[h] += row[h]


# Small functions on parts of large arrays are inlined: handing over arrays would cost as much time
# as they take.
@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _worth(blocks, g, price):
    """Return what the blocks of group g exceed the price by."""
    s = np.float32(0.0)
    for at in range(blocks.shape[1]):
        x = blocks[g, at] - price
        s += x if x > np.float32(0.0) else np.float32(0.0)
    return s


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _worth_after(blocks, g, h, items, a, b, price):
    """Return what groups g and h are worth after item a of the first and b of the second swap."""
    s = np.float32(0.0)
    for at in range(blocks.shape[1]):
        move = items[b, at] - items[a, at]
        x = blocks[g, at] + move - price
        y = blocks[h, at] - move - price
        s += x if x > np.float32(0.0) else np.float32(0.0)
        s += y if y > np.float32(0.0) else np.float32(0.0)
    return s


@njit(cache=True, nogil=True, fastmath=True)
def swap_scatter(items, blocks, order, size, price, tries, state):
    """Return the root of the mean square of what random swaps change."""
    total = 0.0
    done = 0
    for _ in range(tries):
        p, q = below(state, order.shape[0]), below(state, order.shape[0])
        g, h = p // size, q // size
        if g == h:
            continue
        after = _worth_after(blocks, g, h, items, order[p], order[q], price)
        change = np.float64(after - _worth(blocks, g, price) - _worth(blocks, h, price))
        total += change * change
        done += 1
    return math.sqrt(total / max(1, done))


@njit(cache=True, nogil=True, fastmath=True)
def swap_phase(items, blocks, order, size, price, temperatures, tries, state):
    """Propose swaps of items in different groups, at falling temperatures.

    Parameters
    ----------
    items : float32 array (count, L)
    blocks : float32 array (count / size, L)
        Sums of the groups; updated.
    order : int64 array (count,)
        Updated.
    size : int
        Places of a group.
    price : float32
    temperatures : tuple
        At the first and the last proposal, in units of the scores; 0: only gains are accepted.
    tries : int
        Proposals.
    state : uint64 array (1,)
        State of the generator; updated.

    Returns
    -------
    int
        Swaps that were accepted.
    """
    count = order.shape[0]
    first, last = temperatures
    worth = np.empty(blocks.shape[0], np.float32)
    for g in range(blocks.shape[0]):
        worth[g] = _worth(blocks, g, price)
    accepted = 0
    for k in range(tries):
        p, q = below(state, count), below(state, count)
        g, h = p // size, q // size
        if g == h:
            continue
        a, b = order[p], order[q]
        after = _worth_after(blocks, g, h, items, a, b, price)
        gain = np.float64(after - worth[g] - worth[h])
        if gain <= 0.0:
            heat = first + (last - first) * k / tries
            if heat <= 0.0 or gain < -20.0 * heat or gain < heat * math.log(1.0 - unit(state)):
                continue
        for at in range(blocks.shape[1]):
            move = items[b, at] - items[a, at]
            blocks[g, at] += move
            blocks[h, at] -= move
        worth[g] = _worth(blocks, g, price)
        worth[h] = _worth(blocks, h, price)
        order[p], order[q] = b, a
        accepted += 1
    return accepted
