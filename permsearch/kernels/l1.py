"""The float32 matrix of sums of maxima: an L1 distance matrix, and every swap of an N:M problem.

Take one column out of a group. Per row the group then keeps ``x + max(y, a)`` with any column
``a`` put back into the hole, so ``sum_r max(y[p, r], a[c, r])`` prices every column in every hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from permsearch.kernels.threads import over_row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

# Columns per block: 64 columns of 1024 rows stay in the second-level cache.
_BLOCK = 64
_ROWS = 1024


# Signed slices and range(n): an index that may be negative would cost the vector instructions.
@njit(cache=True, nogil=True, fastmath=True)
def summax_tile(y0, y1, a0, a1, a2, a3, out):
    """Write the 2 x 4 sums of maxima to ``out``; eight sums share six loads."""
    z = np.float32(0)
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = z
    for r in range(y0.shape[0]):
        u, v = y0[r], y1[r]
        w0, w1, w2, w3 = a0[r], a1[r], a2[r], a3[r]
        s00 += u if u > w0 else w0
        s01 += u if u > w1 else w1
        s02 += u if u > w2 else w2
        s03 += u if u > w3 else w3
        s10 += v if v > w0 else w0
        s11 += v if v > w1 else w1
        s12 += v if v > w2 else w2
        s13 += v if v > w3 else w3
    out[0], out[1], out[2], out[3] = s00, s01, s02, s03
    out[4], out[5], out[6], out[7] = s10, s11, s12, s13


@njit(cache=True, nogil=True)
def _strip(y, a, i, j, k, r, s, out):
    """Add the sums over rows r .. s-1 for two holes from i and the columns j .. k-1."""
    t = np.empty(8, out.dtype)
    i1 = min(i + 1, y.shape[0] - 1)
    y0, y1 = y[i, r:s], y[i1, r:s]
    for c in range(j, k, 4):
        c1, c2, c3 = min(c + 1, k - 1), min(c + 2, k - 1), min(c + 3, k - 1)
        summax_tile(y0, y1, a[c, r:s], a[c1, r:s], a[c2, r:s], a[c3, r:s], t)
        for q in range(min(4, k - c)):
            out[i, c + q] += t[q]
            if i1 > i:
                out[i1, c + q] += t[4 + q]


@njit(cache=True, nogil=True)
def summax_serial(y, a, out):
    """``out[p, c] = sum_r max(y[p, r], a[c, r])`` on one core; callable from other kernels."""
    rows = a.shape[1]
    out[:] = 0
    for j in range(0, a.shape[0], _BLOCK):
        k = min(a.shape[0], j + _BLOCK)
        for r in range(0, rows, _ROWS):
            for i in range(0, y.shape[0], 2):
                _strip(y, a, i, j, k, r, min(rows, r + _ROWS), out)


def summax(y: Floats, a: Floats, out: Floats) -> Floats:
    """Return ``out`` with ``out[p, c] = sum_r max(y[p, r], a[c, r])``.

    Parameters
    ----------
    y : float array (P, R)
        What each hole needs at least: the N-th largest of the columns left in its group.
    a : float array (C, R)
        The columns.
    out : float array (P, C)
        Overwritten. All three are float32, or all float64. Any number of threads gives the same
        bits.
    """
    over_row_blocks(summax_serial, y, a, out)
    return out
