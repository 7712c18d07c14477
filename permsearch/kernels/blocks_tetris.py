"""The published step of TETRIS: the largest swap that gains, again and again.

For fixed blocks an item is worth a known amount in each group. The largest swap between two groups
takes the item of either that gains most by going to the other, so that a table of pairs of groups
is enough to find it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST = 1e-6  # of the largest benefit; float32 benefits differ by less


@njit(cache=True, nogil=True)
def worth_of_items(items, chosen, worth):
    """Fill what each item holds in the blocks that stay of each group.

    Parameters
    ----------
    items : float32 array (count, L)
    chosen : bool array (groups, L)
    worth : float32 array (count, groups)
        Filled; sums are added up in one order, whatever the number of threads.
    """
    places = np.empty(chosen.shape[1], np.int64)
    for g in range(chosen.shape[0]):
        kept = 0
        for h in range(chosen.shape[1]):
            if chosen[g, h]:
                places[kept] = h
                kept += 1
        for i in range(items.shape[0]):
            s = np.float64(0.0)
            for k in range(kept):
                s += items[i, places[k]]
            worth[i, g] = s


@njit(cache=True, nogil=True)
def _look(benefit, order, size, g, gain, who):
    """Find, for every group, the item of group g that gains most by going there."""
    groups = benefit.shape[1]
    gain[g, :] = -np.inf
    for place in range(g * size, (g + 1) * size):
        row = benefit[order[place]]
        here = np.float64(row[g])
        for h in range(groups):
            x = np.float64(row[h]) - here
            if x > gain[g, h]:
                gain[g, h] = x
                who[g, h] = place


@njit(cache=True, nogil=True)
def _largest(gain):
    """Return the two groups of the largest swap and what it gains."""
    best = 0.0
    first = 0
    second = 0
    for g in range(gain.shape[0]):
        for h in range(g):
            x = gain[g, h] + gain[h, g]
            if x > best:
                best = x
                first, second = g, h
    return first, second, best


@njit(cache=True, nogil=True)
def greedy_swaps(benefit, order, size, most):
    """Swap items of two groups, the largest gain first, while there is one.

    Parameters
    ----------
    benefit : float32 array (count, groups)
        What an item is worth in each group.
    order : int64 array (count,)
        Updated; consecutive items form groups.
    size : int
        Places of a group.
    most : int
        Swaps at most.

    Returns
    -------
    int
        Swaps that were done.
    """
    groups = benefit.shape[1]
    gain = np.empty((groups, groups))
    who = np.zeros((groups, groups), np.int64)
    least = 0.0
    for i in range(benefit.shape[0]):
        for g in range(groups):
            least = max(least, _LEAST * abs(benefit[i, g]))
    for g in range(groups):
        _look(benefit, order, size, g, gain, who)
    for done in range(most):
        g, h, best = _largest(gain)
        if best <= least:
            return done
        p, q = who[g, h], who[h, g]
        order[p], order[q] = order[q], order[p]
        _look(benefit, order, size, g, gain, who)
        _look(benefit, order, size, h, gain, who)
    return most
