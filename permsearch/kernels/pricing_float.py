"""Pricing of every group of m columns in float32: where one 8-bit step for all is too coarse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from permsearch.kernels.l1 import summax_tile
from permsearch.kernels.pricing import begin, full, paid, put


@njit(cache=True, nogil=True, fastmath=True)
def _sum_max(a: Any, b: Any) -> Any:
    s = np.float32(0.0)
    for r in range(a.shape[0]):
        s += a[r] if a[r] > b[r] else b[r]
    return s


@njit(cache=True, nogil=True, fastmath=True)
def _sum(a: Any) -> Any:
    s = np.float32(0.0)
    for r in range(a.shape[0]):
        s += a[r]
    return s


@njit(cache=True, nogil=True)
def _heads(columns: Any, top: Any, first: int) -> Any:
    """Return, per column c, what the prefix and c keep without y."""
    n = top.shape[0]
    heads = np.zeros(columns.shape[0], np.float64)
    rest = 0.0
    for k in range(n - 2):
        rest += _sum(top[k])
    for c in range(first, columns.shape[0] if n > 1 else 0):
        heads[c] = rest + _sum_max(top[n - 2], columns[c])
    return heads


@njit(cache=True, nogil=True)
def price_floats(
    columns: Any,
    cost: Any,
    inflation: float,
    limit: float,
    n: int,
    prefixes: Any,
    y: Any,
    found: Any,
) -> Any:
    """Find the groups whose value times ``inflation``, less their costs, exceeds ``limit``.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    cost : float64 array, shape (C,)
    inflation : float
        One plus what float32 sums may be short of, relatively.
    limit : float
    n : int
    prefixes : int64 array, shape (P, m - 2)
    y : float32 array, shape (C + 1, R), scratch
    found : int64 array, shape (K, m)
        Filled; K >= C (C - 1) / 2.

    Returns
    -------
    prefixes done, groups found
    """
    count, rows = columns.shape
    top, carry = np.empty((n, rows), np.float32), np.empty(rows, np.float32)
    sums = np.empty((2, count), np.float32)
    size = 0
    for p in range(prefixes.shape[0]):
        prefix = prefixes[p]
        if full(found, size, count):
            return p, size
        first = begin(columns, prefix, n, top, carry, y)
        heads = _heads(columns, top, first)
        bar = limit + paid(cost, prefix)
        for c in range(first, count - 1, 2):
            _two_rows(y, columns, c, sums)
            for q in range(min(2, count - 1 - c)):
                need = bar + cost[c + q] - inflation * heads[c + q]
                size = _collect(sums[q], cost, inflation, need, c + q, prefix, found, size)
    return prefixes.shape[0], size


@njit(cache=True, nogil=True)
def _two_rows(y: Any, columns: Any, c: int, sums: Any) -> None:
    """Fill ``sums`` with the sums of maxima of y[c], y[c + 1] and every column behind c."""
    t = np.empty(8, np.float32)
    top = columns.shape[0] - 1
    for d in range(c + 1, columns.shape[0], 4):
        d1, d2, d3 = min(d + 1, top), min(d + 2, top), min(d + 3, top)
        summax_tile(y[c], y[c + 1], columns[d], columns[d1], columns[d2], columns[d3], t)
        for k in range(min(4, top + 1 - d)):
            sums[0, d + k] = t[k]
            sums[1, d + k] = t[4 + k]


@njit(cache=True, nogil=True)
def _collect(
    sums: Any,
    cost: Any,
    inflation: float,
    need: float,
    c: int,
    prefix: Any,
    found: Any,
    size: int,
) -> int:
    """Append the groups (prefix, c, d) with d > c whose last column brings more than ``need``."""
    best = -np.inf
    for d in range(c + 1, sums.shape[0]):
        x = inflation * sums[d] - cost[d]
        best = x if x > best else best
    if best <= need:
        return size
    for d in range(c + 1, sums.shape[0]):
        if inflation * sums[d] - cost[d] > need:
            size = put(found, size, prefix, c, d)
    return size
