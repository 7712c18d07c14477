"""Prices of columns in holes of V:N:M: one column of every group is taken out, all are put back.

With column c in the hole of a group, a strip of rows keeps the best of the sets that leave c out
and of all triples {i, j, k} of the others joined by c. Per row such a set keeps x + max(y, c),
x and y the largest and the second largest of the triple, so a triple is one column y and a sum.
Of the triples only those are tried that do best with the column taken out: the value of the
present order is exact, that of another a lower limit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.l1 import summax_tile
from permsearch.kernels.vnm import pair_tables, set_values


@njit(cache=True, nogil=True, fastmath=True)
def _triple(high, low, c, own, y):
    """Fill the second largest of three columns, a pair's maximum and minimum and c; return sums.

    The first is the sum of the largest, the second that of the larger of y and ``own``.
    """
    x = np.float32(0)
    z = np.float32(0)
    for r in range(y.shape[0]):
        h, w, k = high[r], low[r], c[r]
        x += h if h > k else k
        mid = h if h < k else k
        mid = mid if mid > w else w
        y[r] = mid
        o = own[r]
        z += mid if mid > o else o
    return x, z


@njit(cache=True, nogil=True)
def _triples(columns, rest, own, first, last, high, both, numbers, low, seconds, tops, worth):
    """Fill y, the sum of x and the worth with ``own`` of every triple; return their number."""
    m = rest.shape[0]
    at = 0
    for i in range(m - 2):
        for j in range(i + 1, m - 1):
            p = numbers[i, j]
            h, s = high[p], both[p]
            for r in range(low.shape[0]):
                low[r] = s[r] - h[r]
            for k in range(j + 1, m):
                x, z = _triple(h, low, columns[rest[k], first:last], own, seconds[at])
                tops[at] = x
                worth[at] = x + z
                at += 1
    return at


@njit(cache=True, nogil=True)
def _pick(worth, count, picked):
    """Fill the places of the largest of the first ``count`` values; ties go to the lower."""
    for k in range(picked.shape[0]):
        best = 0
        for at in range(1, count):
            if worth[at] > worth[best]:
                best = at
        picked[k] = best
        worth[best] = np.float32(-1)


@njit(cache=True, nogil=True)
def _price(columns, taken, first, last, base, seconds, tops, picked, prices):
    """Add what a strip keeps with each of the taken columns in the hole."""
    count = taken.shape[0]
    sums = np.empty(8, np.float32)
    for j in range(0, count, 2):
        j1 = min(j + 1, count - 1)
        a, b = columns[taken[j], first:last], columns[taken[j1], first:last]
        one = base
        two = base
        for k in range(0, picked.shape[0], 4):
            q0, q1, q2, q3 = picked[k], picked[k + 1], picked[k + 2], picked[k + 3]
            summax_tile(a, b, seconds[q0], seconds[q1], seconds[q2], seconds[q3], sums)
            for i in range(4):
                x = tops[picked[k + i]]
                one = max(one, x + sums[i])
                two = max(two, x + sums[4 + i])
        prices[j] += one
        if j1 > j:
            prices[j1] += two


@njit(cache=True, nogil=True)
def hole_prices(columns, order, place, v, numbers, tried, prices):
    """Price every taken column in every hole.

    Parameters
    ----------
    columns : float32 array (C, rows)
        Rows in strips of `v`.
    order : int64 array (C,)
    place : int64 array (G,)
        The position taken out of each of the first G groups that is asked about, any groups.
    v : int
    numbers : int64 array (M - 1, M - 1)
        From `pair_numbers`.
    tried : int
        Triples tried in a strip, a multiple of four.
    prices : float32 array (G, G)
        Overwritten: what group g keeps with the column from ``place[h]`` in its hole.
    """
    m = numbers.shape[0] + 1
    pairs = (m - 1) * (m - 2) // 2
    triples = pairs * (m - 3) // 3
    high = np.empty((pairs, v), np.float32)
    both = np.empty((pairs, v), np.float32)
    low = np.empty(v, np.float32)
    seconds = np.empty((triples, v), np.float32)
    tops = np.empty(triples, np.float32)
    worth = np.empty(triples, np.float32)
    values = np.empty(max(1, triples * (m - 4) // 4), np.float32)
    picked = np.empty(tried, np.int64)
    rest = np.empty(m - 1, np.int64)
    taken = order[place]
    prices[:] = 0
    for g in range(place.shape[0]):
        start = place[g] // m * m
        at = 0
        for p in range(start, start + m):
            if p != place[g]:
                rest[at] = order[p]
                at += 1
        for first in range(0, columns.shape[1], v):
            last = first + v
            pair_tables(columns, rest, first, last, high, both)
            base = set_values(high, both, numbers, values)
            own = columns[order[place[g]], first:last]
            count = _triples(
                columns, rest, own, first, last, high, both, numbers, low, seconds, tops, worth
            )
            _pick(worth, count, picked)
            _price(columns, taken, first, last, base, seconds, tops, picked, prices[g])
