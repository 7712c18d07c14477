"""What columns promise to groups of blocks whose rows have prices: transposable N:M, any size.

See `permsearch.kernels.transposable.block_levels`: an upper limit, exact for the columns that the
group has.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _largest(values, n, top):
    """Return the sum of the n largest values."""
    for k in range(n):
        top[k] = -np.inf
    for i in range(values.shape[0]):
        x = values[i]
        if x <= top[n - 1]:
            continue
        k = n - 1
        while k > 0 and top[k - 1] < x:
            top[k] = top[k - 1]
            k -= 1
        top[k] = x
    total = 0.0
    for k in range(n):
        total += top[k]
    return total


@njit(cache=True, nogil=True)
def promises(columns, order, chosen, groups, n, levels, out):
    """Fill what each chosen column promises to each group.

    Parameters
    ----------
    columns : float32 array (C, taps, R)
    order : int64 array (R,)
        Order of the rows.
    chosen : int64 array (K,)
        Columns.
    groups : int64 array (G,)
        Groups of columns.
    n : int
    levels : float64 array (taps * R / m, C / m, m)
    out : float64 array (K, G)
        Filled.
    """
    m = levels.shape[2]
    blocks = order.shape[0] // m
    line, values, top = np.empty(order.shape[0]), np.empty(m), np.empty(n)
    for k in range(chosen.shape[0]):
        out[k] = 0.0
        for t in range(columns.shape[1]):
            for r in range(order.shape[0]):
                line[r] = columns[chosen[k], t, order[r]]
            for b in range(blocks):
                part = line[b * m : (b + 1) * m]
                for g in range(groups.shape[0]):
                    price = levels[t * blocks + b, groups[g]]
                    for i in range(m):
                        values[i] = part[i] - price[i]
                    out[k, g] += _largest(values, n, top)
