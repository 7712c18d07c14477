"""What the first rows of a matrix are worth in tiles, number of rows by number of rows."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _above(sums, row, price):
    """Add a row to the sums; return what they exceed a price by, in all."""
    total = 0.0
    for c in range(sums.shape[0]):
        s = sums[c] + row[c]
        sums[c] = s
        total += s - price if s > price else 0.0
    return total


@njit(cache=True, nogil=True)
def worth_of_rows(matrix, g, price):
    """Return what pieces of the first 1, 2, ... R rows exceed their area's price by, float64.

    Parameters
    ----------
    matrix : float array (R, C)
    g : int
        Rows of a tile; the last one is as low as the rows leave it.
    price : float
        Of one entry.
    """
    height, width = matrix.shape
    worth = np.empty(height)
    sums = np.zeros(width)
    whole = 0.0
    for r in range(height):
        rows = r % g + 1
        worth[r] = whole + _above(sums, matrix[r], price * rows)
        if rows == g:
            whole = worth[r]
            sums[:] = 0.0
    return worth
