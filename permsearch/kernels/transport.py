"""Exact balanced assignment: items to groups that take a limited number of them each.

Best augmenting chains (successive shortest paths) on the graph of the *groups*, not of their
copies: an arc g -> h is worth what the best item of g for that gains by moving from g to h. An
item enters the best chain of such moves that ends in a group with room. Prices of the groups
tell where almost all items go before any chain is looked for, so that only the few that find
their group full need one; like column duals in the method of Jonker and Volgenant (Computing 38,
1987) they speed the search up and never change its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOLERANCE = 1e-12  # of the largest benefit; smaller gains are rounding
_ROUNDS = 12  # of rough prices
_NEVER = -1e300


@njit(cache=True, nogil=True)
def _favourite(row, prices):
    """Return the group that a row likes best at these prices; ties go to the lower index."""
    best = row[0] - prices[0]
    at = 0
    for g in range(1, row.shape[0]):
        x = row[g] - prices[g]
        if x > best:
            best = x
            at = g
    return at


@njit(cache=True, nogil=True)
def rough_prices(benefit, capacity, prices):
    """Raise the prices of groups that are liked by too many, lower those of the others.

    A start for `transport_uneven` where there is no better one: it leaves few items waiting.
    """
    items, groups = benefit.shape
    spread = 0.0
    for r in range(items):
        row = benefit[r]
        mean = 0.0
        for g in range(groups):
            mean += row[g]
        mean /= groups
        for g in range(groups):
            spread += (row[g] - mean) ** 2
    spread = np.sqrt(spread / (items * groups))
    liked = np.empty(groups, np.int64)
    for k in range(_ROUNDS):
        liked[:] = 0
        for r in range(items):
            liked[_favourite(benefit[r], prices)] += 1
        step = spread / (2.0 + k)
        for g in range(groups):
            excess = (liked[g] - capacity[g]) / capacity[g]
            prices[g] += step * max(-1.0, min(1.0, excess))


@njit(cache=True, nogil=True)
def _look(benefit, members, count, g, gain, who):
    """Find, for every group, the member of g that gains most by moving there."""
    groups = benefit.shape[1]
    for h in range(groups):
        gain[g, h] = _NEVER
    for i in range(count):
        row = benefit[members[g, i]]
        here = row[g]
        for h in range(groups):
            x = np.float64(row[h]) - here
            better = x > gain[g, h]
            gain[g, h] = x if better else gain[g, h]
            who[g, h] = i if better else who[g, h]


@njit(cache=True, nogil=True)
def _chains(count, capacity, gain, least, reach, before, stale):
    """Lengthen chains of moves until none gains: Bellman and Ford, full groups only."""
    groups = reach.shape[0]
    for g in range(groups):
        before[g] = -1
        stale[g] = 1
    for _ in range(groups):
        changed = False
        for g in range(groups):
            if stale[g] == 0 or count[g] < capacity[g]:
                continue
            stale[g] = 0
            changed = True
            here = reach[g]
            row = gain[g]
            for h in range(groups):
                x = here + row[h]
                better = x > reach[h] + least
                reach[h] = x if better else reach[h]
                before[h] = g if better else before[h]
                stale[h] = 1 if better else stale[h]
        if not changed:
            break


@njit(cache=True, nogil=True)
def _insert(benefit, r, capacity, prices, least, state, work):
    """Let an item enter by the best chain of moves."""
    members, count, gain, who, labels = state
    reach, before, stale = work
    groups = benefit.shape[1]
    for g in range(groups):
        reach[g] = benefit[r, g]
    _chains(count, capacity, gain, least, reach, before, stale)
    end = -1
    for g in range(groups):
        room = count[g] < capacity[g]
        if room and (end < 0 or reach[g] - prices[g] > reach[end] - prices[end]):
            end = g
    slot = count[end]
    count[end] += 1
    at = end
    while before[at] >= 0:  # the item that leaves a group makes the room that the next one takes
        g = before[at]
        place = who[g, at]
        moved = members[g, place]
        members[at, slot] = moved
        labels[moved] = at
        if count[at] == capacity[at]:
            _look(benefit, members, count[at], at, gain, who)
        at = g
        slot = place
    members[at, slot] = r
    labels[r] = at
    if count[at] == capacity[at]:
        _look(benefit, members, count[at], at, gain, who)


@njit(cache=True, nogil=True)
def _begin(benefit, capacity, prices, state, waiting):
    """Give every item the group that it likes best while there is room; return who waits."""
    members, count, gain, who, labels = state
    left = 0
    for r in range(benefit.shape[0]):
        g = _favourite(benefit[r], prices)
        if count[g] < capacity[g]:
            members[g, count[g]] = r
            count[g] += 1
            labels[r] = g
        else:
            waiting[left] = r
            left += 1
    for g in range(benefit.shape[1]):
        if count[g] == capacity[g]:
            _look(benefit, members, count[g], g, gain, who)
    return left


@njit(cache=True, nogil=True)
def _settle_prices(gain, least, prices):
    """Set prices at which every item likes its own group best."""
    groups = prices.shape[0]
    prices[:] = 0.0
    for _ in range(groups):
        changed = False
        for g in range(groups):
            for h in range(groups):
                if prices[g] + gain[g, h] > prices[h] + least:
                    prices[h] = prices[g] + gain[g, h]
                    changed = True
        if not changed:
            break


@njit(cache=True, nogil=True)
def transport_uneven(benefit, capacity, prices):
    """Find the labels of the largest total benefit where every group has a capacity of its own.

    Parameters
    ----------
    benefit : float array (items, groups)
        What an item is worth in each group; finite, any sign; no more items than places.
    capacity : int64 array (groups,)
        >= 1.
    prices : float64 array (groups,)
        Where the groups are filled exactly: any start is right, and the prices of a problem much
        like this one are a fast one; prices of the optimum on return. Otherwise they are set
        to zero.

    Returns
    -------
    int64 array (items,)
        The group of every item.
    """
    items, groups = benefit.shape
    full = items == capacity.sum()
    largest = 0.0
    for r in range(items):
        for g in range(groups):
            largest = max(largest, abs(benefit[r, g]))
    least = _TOLERANCE * largest
    labels = np.empty(items, np.int64)
    state = (
        np.empty((groups, capacity.max()), np.int64),
        np.zeros(groups, np.int64),
        np.full((groups, groups), _NEVER),
        np.zeros((groups, groups), np.int64),
        labels,
    )
    if not full:
        prices[:] = 0.0
    waiting = np.empty(items, np.int64)
    left = _begin(benefit, capacity, prices, state, waiting)
    work = (np.empty(groups), np.empty(groups, np.int64), np.empty(groups, np.int64))
    for k in range(left):
        _insert(benefit, waiting[k], capacity, prices, least, state, work)
    if full:
        _settle_prices(state[2], least, prices)
    return labels


@njit(cache=True, nogil=True)
def transport(benefit, capacity, prices):
    """Find the labels of the largest total benefit with at most `capacity` items in a group.

    `capacity` is an int; all else is as for `transport_uneven`.
    """
    return transport_uneven(benefit, np.full(benefit.shape[1], capacity, np.int64), prices)


@njit(cache=True, nogil=True)
def _cold(benefit, capacity):
    prices = np.zeros(benefit.shape[1])
    if benefit.shape[0] == capacity.sum():
        rough_prices(benefit, capacity, prices)
    return transport_uneven(benefit, capacity, prices)


def balanced(benefit: NDArray[Any], capacity: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of every item, at most `capacity` in each, of the largest total benefit.

    Parameters
    ----------
    benefit
        Float array (items, groups), finite; no more items than places.
    capacity
        Items that a group takes: one number, or one for each group, >= 1.
    """
    items, groups = benefit.shape
    places = np.broadcast_to(np.asarray(capacity, np.int64), (groups,)).copy()
    if items > places.sum():
        raise ValueError(f"{items} items do not fit into {groups} groups of {capacity}.")
    labels: NDArray[np.int64] = _cold(np.ascontiguousarray(benefit), places)
    return labels
