"""What rows keep of live columns that are given: benefits of rows in strips of V:N:M."""

from __future__ import annotations

import numpy as np
from numba import njit

from permsearch.kernels.vnm import pair_tables, set_values

_TILE = 64


@njit(cache=True, nogil=True)
def turn(scores, rows, columns):
    """Fill the columns of the scores with the rows of every tap in order.

    Parameters
    ----------
    scores : float32 array (taps * R, C)
    rows : int64 array (R,)
    columns : float32 array (C, taps * R)
        Overwritten.
    """
    count = rows.shape[0]
    tile = np.empty((_TILE, _TILE), columns.dtype)  # columns a power of two apart share a cache set
    for first in range(0, columns.shape[1], _TILE):
        last = min(columns.shape[1], first + _TILE)
        for start in range(0, columns.shape[0], _TILE):
            stop = min(columns.shape[0], start + _TILE)
            for r in range(first, last):
                row = scores[r // count * count + rows[r % count], start:stop]
                for c in range(row.shape[0]):
                    tile[c, r - first] = row[c]
            for c in range(start, stop):
                columns[c, first:last] = tile[c - start, : last - first]


@njit(cache=True, nogil=True)
def live_sets(columns, order, v, numbers, live):
    """Fill the best live columns of every block in float32; return what all blocks keep.

    Parameters
    ----------
    columns : float32 array (C, rows)
        Rows in strips of `v`.
    order : int64 array (C,)
    v : int
    numbers : int64 array (M, M)
        From `pair_numbers`.
    live : int64 array (rows / v, C / M, 4)
        Overwritten.
    """
    m = numbers.shape[0]
    pairs = m * (m - 1) // 2
    high = np.empty((pairs, v), np.float32)
    both = np.empty((pairs, v), np.float32)
    values = np.empty(m * (m - 1) * (m - 2) * (m - 3) // 24, np.float32)
    total = 0.0
    for t in range(live.shape[0]):
        for g in range(live.shape[1]):
            members = order[g * m : g * m + m]
            pair_tables(columns, members, t * v, t * v + v, high, both)
            best = set_values(high, both, numbers, values)
            total += np.float64(best)
            _unrank(values, best, m, members, live[t, g])
    return total


@njit(cache=True, nogil=True)
def _unrank(values, best, m, members, live):
    """Fill the columns of the first set of that value."""
    at = 0
    while values[at] != best:
        at += 1
    for i in range(m - 3):
        for j in range(i + 1, m - 2):
            for k in range(j + 1, m - 1):
                count = m - 1 - k
                if at < count:
                    live[0], live[1] = members[i], members[j]
                    live[2], live[3] = members[k], members[k + 1 + at]
                    return
                at -= count


@njit(cache=True, nogil=True, fastmath=True)
def add_top_two(a, b, c, d, out):
    """Add the sum of the two largest of four columns to ``out``, row by row."""
    for r in range(out.shape[0]):
        x, y, z, w = a[r], b[r], c[r], d[r]
        s1, s2 = x + y, z + w
        h1 = x if x > y else y
        h2 = z if z > w else w
        top = s1 if s1 > s2 else s2
        mixed = h1 + h2
        out[r] += mixed if mixed > top else top


@njit(cache=True, nogil=True)
def row_benefits(columns, live, rows, benefits):
    """Fill what each row keeps under the live columns of each strip.

    Parameters
    ----------
    columns : float32 array (C, taps * rows)
        Tap after tap.
    live : int64 array (taps * strips, C / M, 4)
    rows : int
    benefits : float32 array (strips, rows)
        Overwritten: sums over the taps.
    """
    strips = benefits.shape[0]
    taps = live.shape[0] // strips
    benefits[:] = 0
    for first in range(0, rows, 256):  # what the columns hold of so many rows stays in the cache
        last = min(rows, first + 256)
        for k in range(taps):
            i, j = k * rows + first, k * rows + last
            for t in range(strips):
                out = benefits[t, first:last]
                sets = live[k * strips + t]
                for g in range(sets.shape[0]):
                    add_top_two(
                        columns[sets[g, 0], i:j],
                        columns[sets[g, 1], i:j],
                        columns[sets[g, 2], i:j],
                        columns[sets[g, 3], i:j],
                        out,
                    )
