"""Exchanging rows of V:N:M: one row leaves every strip, and all return where they do best.

In an alternation of rows and live columns a row's own vote is in its strip's choice, so that at
large size nothing moves. Here a row is priced in strips that are one row short: a strip keeps the
best of its sets of live columns once the row has joined. For every block the best sets are kept
with what the strip's rows hold of them; only those near the best are tried for a row, and the
lists are found anew every few steps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.vnm import pair_tables, set_values


@njit(cache=True, nogil=True)
def _gather(scores, picked, offset, order, panel):
    """Fill a panel (C, rows) with the picked rows of a tap, columns in order."""
    for c0 in range(0, panel.shape[0], 64):
        for r in range(picked.shape[0]):
            row = scores[offset + picked[r]]
            for c in range(c0, min(c0 + 64, panel.shape[0])):
                panel[c, r] = row[order[c]]


@njit(cache=True, nogil=True)
def _largest(values, best, worth):
    """Fill the places of the largest values, falling, and the values; ties to the lower place."""
    for k in range(best.shape[0]):
        at = 0
        for q in range(1, values.shape[0]):
            if values[q] > values[at]:
                at = q
        best[k] = at
        worth[k] = values[at]
        values[at] = np.float32(-1)


@njit(cache=True, nogil=True)
def list_sets(scores, order, rows, v, numbers, best, worth):
    """Find the best sets of live columns of every block.

    Parameters
    ----------
    scores : float32 array (taps * R, C)
    order : int64 array (C,)
    rows : int64 array (R,)
    v : int
    numbers : int64 array (M, M)
        From `pair_numbers`.
    best : int64 array (taps * R / v, C / M, K)
        Overwritten: the numbers of the best sets, best first.
    worth : float32 array of the same shape
        Overwritten: what the strips keep with them.
    """
    m = numbers.shape[0]
    pairs = m * (m - 1) // 2
    high = np.empty((pairs, v), np.float32)
    both = np.empty((pairs, v), np.float32)
    values = np.empty(m * (m - 1) * (m - 2) * (m - 3) // 24, np.float32)
    panel = np.empty((order.shape[0], v), np.float32)
    members = np.arange(m)
    height = rows.shape[0]
    for t in range(best.shape[0]):
        first = t * v % height
        _gather(scores, rows[first : first + v], t * v // height * height, order, panel)
        for g in range(best.shape[1]):
            pair_tables(panel[g * m : g * m + m], members, 0, v, high, both)
            set_values(high, both, numbers, values)
            _largest(values, best[t, g], worth[t, g])


@njit(cache=True, nogil=True, fastmath=True)
def _raise(base, h1, s1, h2, s2, out):
    """Raise ``out`` to what a set keeps once a row has joined, for every row."""
    for r in range(out.shape[0]):
        x, y = s1[r], s2[r]
        top = x if x > y else y
        mixed = h1[r] + h2[r]
        top = mixed if mixed > top else top
        top += base
        out[r] = top if top > out[r] else out[r]


@njit(cache=True, nogil=True, fastmath=True)
def _add(values, out):
    for r in range(out.shape[0]):
        out[r] += values[r]


@njit(cache=True, nogil=True)
def _own(pair, high, both, r):
    """Return what a row keeps of a set."""
    p, q = pair[0], pair[1]
    top = max(both[p, r], both[q, r])
    return max(top, high[p, r] + high[q, r])


@njit(cache=True, nogil=True)
def exchange_prices(scores, order, picked, pairs, near, best, worth, prices):
    """Price one row of every strip in every strip.

    Parameters
    ----------
    scores : float32 array (taps * R, C)
    order : int64 array (C,)
    picked : int64 array (strips,)
        A row of each strip.
    pairs : int64 array (sets, 2)
        The two pairs of columns that a set consists of.
    near : float
        Sets that keep so much less than the best are not tried.
    best, worth : arrays (taps * strips, C / M, K)
        From `list_sets`, with the picked rows.
    prices : float32 array (strips, strips)
        Overwritten: what strip t keeps with the row picked from u in the place of its own. Exact
        for its own, a lower limit for others.
    """
    strips = picked.shape[0]
    groups, kept = best.shape[1], best.shape[2]
    m = order.shape[0] // groups
    height = scores.shape[0] // (best.shape[0] // strips)
    high = np.empty((m * (m - 1) // 2, strips), np.float32)
    both = np.empty((m * (m - 1) // 2, strips), np.float32)
    panel = np.empty((order.shape[0], strips), np.float32)
    kept_now = np.empty(strips, np.float32)
    members = np.arange(m)
    prices[:] = 0
    for k in range(best.shape[0] // strips):
        _gather(scores, picked, k * height, order, panel)
        for g in range(groups):
            pair_tables(panel[g * m : g * m + m], members, 0, strips, high, both)
            for t in range(strips):
                sets, sums = best[k * strips + t, g], worth[k * strips + t, g]
                least = sums[0]
                for q in range(1, kept):
                    least = max(least, sums[q])
                least -= near
                kept_now[:] = 0
                for q in range(kept):
                    if sums[q] >= least:
                        pair = pairs[sets[q]]
                        base = sums[q] - _own(pair, high, both, t)
                        i, j = pair[0], pair[1]
                        _raise(base, high[i], both[i], high[j], both[j], kept_now)
                _add(kept_now, prices[t])


@njit(cache=True, nogil=True)
def exchange_rows(scores, order, picked, joins, pairs, best, worth):
    """Bring the sums of the listed sets up to date: row ``joins[t]`` replaces the one of strip t.

    `picked` are the rows that leave; ``joins[t]`` is a place in it.
    """
    strips = picked.shape[0]
    groups, kept = best.shape[1], best.shape[2]
    m = order.shape[0] // groups
    height = scores.shape[0] // (best.shape[0] // strips)
    high = np.empty((m * (m - 1) // 2, strips), np.float32)
    both = np.empty((m * (m - 1) // 2, strips), np.float32)
    panel = np.empty((order.shape[0], strips), np.float32)
    members = np.arange(m)
    for k in range(best.shape[0] // strips):
        _gather(scores, picked, k * height, order, panel)
        for g in range(groups):
            pair_tables(panel[g * m : g * m + m], members, 0, strips, high, both)
            for t in range(strips):
                if joins[t] == t:
                    continue
                sets, sums = best[k * strips + t, g], worth[k * strips + t, g]
                for q in range(kept):
                    pair = pairs[sets[q]]
                    sums[q] += _own(pair, high, both, joins[t]) - _own(pair, high, both, t)
