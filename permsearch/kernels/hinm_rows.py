"""Sums over the rows of tiles, what rows hold of the vectors tiles keep, and inner products.

Plain loops instead of matrix products: a library's product may add in another order on another
number of threads, and orders must not depend on that.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ROWS = 256  # of a column, handled at a time so that the sums stay in the cache


@njit(cache=True, nogil=True, fastmath=True)
def _add(values, out):
    for r in range(out.shape[0]):
        out[r] += values[r]


@njit(cache=True, nogil=True)
def tile_sums(scores, rows, v, sums):
    """Fill the sums of the columns over every tile.

    Parameters
    ----------
    scores : float32 array (taps * R, C)
    rows : int64 array (R,)
        The tiles' rows, `v` each; alike in all taps.
    v : int
    sums : float32 array (taps * R / v, C)
        Overwritten.
    """
    height = rows.shape[0]
    for t in range(sums.shape[0]):
        out = sums[t]
        out[:] = 0
        first = t * v % height
        offset = t * v // height * height
        for r in range(first, first + v):
            _add(scores[offset + rows[r]], out)


@njit(cache=True, nogil=True)
def vector_benefits(columns, live, benefits):
    """Fill what every row holds of the vectors that tiles keep.

    Parameters
    ----------
    columns : float32 array (taps, C, R)
    live : int64 array (taps * tiles, K)
        Columns that the tiles keep.
    benefits : float32 array (tiles, R)
        Overwritten: sums over the taps.
    """
    tiles, rows = benefits.shape
    benefits[:] = 0
    for first in range(0, rows, _ROWS):
        last = min(rows, first + _ROWS)
        for k in range(columns.shape[0]):
            for t in range(tiles):
                kept = live[k * tiles + t]
                for c in range(kept.shape[0]):
                    _add(columns[k, kept[c], first:last], benefits[t, first:last])


@njit(cache=True, nogil=True, fastmath=True)
def _inner(a, b):
    total = np.float32(0)
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True)
def inner_products(a, b, out):
    """Fill ``out[i, j]`` with the sum of products of row i of ``a`` and row j of ``b``."""
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            out[i, j] = _inner(a[i], b[j])
