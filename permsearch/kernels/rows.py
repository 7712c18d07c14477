"""Kernels over scores as they lie in files, row by row: bytes made of them, and exact sums.

Each row's sum is formed by itself and added to the total in the order of the rows, so that cutting
the rows into other chunks changes no bit of a total.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_TILE = 64  # rows and columns turned at once: their bytes fill cache lines
_BINS = 256


@njit(cache=True, nogil=True)
def _round_row(row: Any, scale: Any, out: Any) -> None:
    for c in range(row.shape[0]):
        x = row[c] * scale + np.float32(0.5)
        out[c] = np.uint8(x if x < np.float32(255) else np.float32(255))


@njit(cache=True, nogil=True)
def pack_rows(rows: Any, scale: Any, block: Any, first: int) -> None:
    """Write rows as bytes, turned: ``block[c, first + r] = min(rows[r, c] * scale, 255)``, rounded.

    Parameters
    ----------
    rows : float array, shape (R, C)
        Finite and >= 0.
    scale : float of the rows' type
    block : uint8 array, shape (C, W)
        Columns ``first`` to ``first + R - 1`` are overwritten.
    """
    count, columns = rows.shape
    tile = np.empty((_TILE, _TILE), np.uint8)
    for r0 in range(0, count, _TILE):
        height = min(_TILE, count - r0)
        for c0 in range(0, columns, _TILE):
            width = min(_TILE, columns - c0)
            for r in range(height):
                _round_row(rows[r0 + r, c0 : c0 + width], scale, tile[r])
            for c in range(width):
                column = block[c0 + c, first + r0 : first + r0 + height]
                for r in range(height):
                    column[r] = tile[r, c]


@njit(cache=True, nogil=True)
def _two_of_four(row: Any, order: Any) -> float:
    total = 0.0
    for g in range(0, order.shape[0], 4):
        a, b = np.float64(row[order[g]]), np.float64(row[order[g + 1]])
        c, d = np.float64(row[order[g + 2]]), np.float64(row[order[g + 3]])
        p = a + b
        q = c + d
        s = p if p > q else q
        h = (a if a > b else b) + (c if c > d else d)
        total += s if s > h else h
    return total


@njit(cache=True, nogil=True)
def _n_of_m(row: Any, order: Any, n: int, m: int, top: Any) -> float:
    total = 0.0
    for g in range(0, order.shape[0], m):
        for j in range(m):
            x = np.float64(row[order[g + j]])
            used = min(j, n)
            k = used
            while k > 0 and top[k - 1] < x:
                if k < n:
                    top[k] = top[k - 1]
                k -= 1
            if k < n:
                top[k] = x
        for k in range(n):
            total += top[k]
    return total


@njit(cache=True, nogil=True)
def kept_rows(rows: Any, order: Any, n: int, m: int, total: float) -> float:
    """Return ``total`` and what the rows keep: the `n` largest of every `m` columns in an order.

    Parameters
    ----------
    rows : float array, shape (R, C)
    order : int64 array, shape (C,)
    n, m : int
        m divides C.
    total : float
        What earlier rows kept.
    """
    top = np.empty(n)
    for r in range(rows.shape[0]):
        if n == 2 and m == 4:
            total += _two_of_four(rows[r], order)
        else:
            total += _n_of_m(rows[r], order, n, m, top)
    return total


@njit(cache=True, nogil=True)
def _threshold(row: Any, keep: int, bins: Any) -> float:
    """Return about the value of the `keep`-th largest entry."""
    peak = row[0]
    for c in range(row.shape[0]):
        peak = row[c] if row[c] > peak else peak
    if peak <= 0:
        return 0.0
    bins[:] = 0
    scale = (_BINS - 1) / np.float64(peak)
    for c in range(row.shape[0]):
        bins[int(row[c] * scale)] += 1
    above = 0
    for b in range(_BINS - 1, -1, -1):
        above += bins[b]
        if above >= keep:
            break
    share = (above - keep) / bins[b]  # of the bin's entries that lie below
    return float((b + share) / scale)


@njit(cache=True, nogil=True)
def limit_rows(rows: Any, keep: int, total: float) -> float:
    """Return ``total`` and an upper limit of the sum of each row's `keep` largest entries.

    For any t a row's `keep` largest sum to at most ``keep * t + sum(max(0, x - t))``, with equality
    where t lies between the last one kept and the first one dropped; t is read off a histogram.
    """
    bins = np.zeros(_BINS, np.int64)
    for r in range(rows.shape[0]):
        row = rows[r]
        t = _threshold(row, keep, bins)
        whole = 0.0
        over = 0.0
        for c in range(row.shape[0]):
            x = np.float64(row[c])
            whole += x
            over += x - t if x > t else 0.0
        over += keep * t
        total += over if over < whole else whole
    return total
