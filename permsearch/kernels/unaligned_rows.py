"""The best blocks of a row at a price for each: weighted intervals of equal length on a line.

With w(j) the sum of the `size` entries from column j on, the best value f(i) of the first i
columns is the larger of f(i - 1) and f(i - size) + w(i - size) - price. Of equals the one with
fewer blocks is taken. Sums of windows are added up anew, not moved along: an entry that is far
larger than the others would leave its rounding behind.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 8


@njit(cache=True, nogil=True)
def _windows(matrix, members, size, price, line, out):
    """Fill out[j, l] with the window at column j of the l-th member, less the price."""
    count = out.shape[0]
    for lane in range(LANES):
        row = matrix[members[lane]]
        for j in range(count):
            line[j] = row[j]
        for k in range(1, size):
            for j in range(count):
                line[j] += row[j + k]
        for j in range(count):
            out[j, lane] = line[j] - price


@njit(cache=True, nogil=True)
def _values(windows, size, best, used):
    """Run the recursion for several rows side by side; the last line holds the answers."""
    for i in range(size):
        for lane in range(LANES):
            best[i, lane] = 0.0
            used[i, lane] = 0.0
    for i in range(windows.shape[0]):
        gained, count = best[i], used[i]
        left, spent = best[i + size - 1], used[i + size - 1]
        out, total = best[i + size], used[i + size]
        line = windows[i]
        for lane in range(LANES):
            x = gained[lane] + line[lane]
            taken = x > left[lane]
            out[lane] = x if taken else left[lane]
            total[lane] = count[lane] + 1.0 if taken else spent[lane]


@njit(cache=True, nogil=True)
def price_rows(matrix, size, price, rows, value, count):
    """Find what rows are worth at a price for each block, and how many blocks they then have.

    Parameters
    ----------
    matrix : float array (R, C)
    size : int
        1 <= size <= C.
    price : float
    rows : int64 array (K,)
        The rows that are asked for.
    value : float64 array (R,)
    count : int64 array (R,)
        Sum of the blocks of a row less their prices, and their number; filled for `rows`.
    """
    width = matrix.shape[1]
    line = np.empty(width - size + 1)
    windows = np.empty((width - size + 1, LANES))
    best = np.empty((width + 1, LANES))
    used = np.empty((width + 1, LANES))
    members = np.empty(LANES, np.int64)
    for first in range(0, rows.shape[0], LANES):
        last = min(LANES, rows.shape[0] - first)
        for lane in range(LANES):
            members[lane] = rows[first + min(lane, last - 1)]
        _windows(matrix, members, size, price, line, windows)
        _values(windows, size, best, used)
        for lane in range(last):
            value[members[lane]] = best[width, lane]
            count[members[lane]] = np.int64(used[width, lane])


@njit(cache=True, nogil=True)
def row_starts(row, size, price):
    """Return where the best blocks of one row begin, ascending, int64."""
    width = row.shape[0]
    best = np.zeros(width + 1)
    takes = np.zeros(width + 1, np.bool_)
    for i in range(size, width + 1):
        s = np.float64(row[i - size])
        for k in range(i - size + 1, i):
            s += row[k]
        x = best[i - size] + (s - price)
        takes[i] = x > best[i - 1]
        best[i] = x if takes[i] else best[i - 1]
    starts = np.empty(width // size, np.int64)
    n = 0
    i = width
    while i > 0:
        if takes[i]:
            i -= size
            starts[n] = i
            n += 1
        else:
            i -= 1
    return starts[:n][::-1].copy()


@njit(cache=True, nogil=True)
def mixed_starts(few, many, size, count):
    """Return `count` starts between two sets of blocks that are both best at one price.

    Blocks of the two sets that overlap form chains in which they alternate. Exchanging a whole
    chain changes the number of blocks by one at most, and no chain of two best sets gains or
    loses; as many chains as are wanted are exchanged, from the left.

    Parameters
    ----------
    few, many : int64 arrays
        Starts, ascending.
    size : int
    count : int
        Between the lengths of the two.
    """
    out = np.empty(count, np.int64)
    wanted = count - few.shape[0]
    n = 0
    i = 0
    j = 0
    while i < few.shape[0] or j < many.shape[0]:
        i0, j0 = i, j
        end = np.int64(-1)
        while i < few.shape[0] or j < many.shape[0]:  # one chain
            earlier = j >= many.shape[0] or (i < few.shape[0] and few[i] <= many[j])
            start = few[i] if earlier else many[j]
            if 0 <= end <= start:
                break
            end = start + size
            if earlier:
                i += 1
            else:
                j += 1
        if (j - j0) - (i - i0) == 1 and wanted > 0:
            wanted -= 1
            for k in range(j0, j):
                out[n] = many[k]
                n += 1
        else:
            for k in range(i0, i):
                out[n] = few[k]
                n += 1
    return out[:n]
