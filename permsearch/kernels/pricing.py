"""Pricing of every group of m columns at given column duals, with 8-bit sums or with float32.

Fix all but two of a group's columns, the prefix, and let hi and lo be the (n - 1)-th and the n-th
largest of them per row (zero where they are fewer; hi is without limit for n = 1). With one more
column c the n-th largest is ``y = clamp(c, lo, hi)``, the n - 1 larger ones sum to
``rest + max(hi, c)``, and with the last column d the group keeps that and ``max(y, d)``. All
groups of a prefix are thus one triangle of a matrix of L1 distances or of sums of maxima.

Prefixes come as rows of an array, sorted; the two last columns stand behind them. Every kernel
stops before a prefix whose groups might not fit into ``found`` and returns how far it came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from permsearch.kernels.holes import insert_high
from permsearch.kernels.psadbw import TILE_COLS, TILE_ROWS
from permsearch.kernels.sad import sad_pair, sad_tile

_HIGHEST = np.int64(1) << 29


@njit(cache=True, nogil=True)
def prefix_levels(columns: Any, prefix: Any, n: int, levels: Any, carry: Any) -> None:
    """Fill levels[0:n] with the n largest of the prefix's columns, row by row; missing ones 0."""
    levels[:] = 0
    for i in range(prefix.shape[0]):
        carry[:] = columns[prefix[i]]
        insert_high(levels, min(i + 1, n), carry)


@njit(cache=True, nogil=True, fastmath=True)
def clamp(column: Any, lo: Any, hi: Any, y: Any) -> None:
    """Fill ``y`` with the column, raised to ``lo`` and lowered to ``hi``."""
    for r in range(y.shape[0]):
        x, h, w = column[r], hi[r], lo[r]
        x = x if x < h else h
        y[r] = x if x > w else w


@njit(cache=True, nogil=True)
def fill_middles(columns: Any, top: Any, first: int, y: Any) -> None:
    """Fill ``y[c]`` with the n-th largest of the prefix and column c, from column ``first`` on.

    ``top`` holds the n largest of the prefix.
    """
    n = top.shape[0]
    for c in range(first, columns.shape[0]):
        if n > 1:
            clamp(columns[c], top[n - 1], top[n - 2], y[c])
        else:
            for r in range(y.shape[1]):
                y[c, r] = max(columns[c, r], top[0, r])


@njit(cache=True, nogil=True)
def begin(columns: Any, prefix: Any, n: int, top: Any, carry: Any, y: Any) -> int:
    """Fill ``top`` and ``y`` for all groups of a prefix; return the first column behind it."""
    prefix_levels(columns, prefix, n, top, carry)
    first = prefix[-1] + 1 if prefix.shape[0] else 0
    fill_middles(columns, top, first, y)
    return first


@njit(cache=True, nogil=True)
def paid(cost: Any, prefix: Any) -> float:
    """Return the costs of a prefix's columns."""
    spent = 0.0
    for k in range(prefix.shape[0]):
        spent += cost[prefix[k]]
    return spent


@njit(cache=True, nogil=True)
def put(found: Any, size: int, prefix: Any, c: int, d: int) -> int:
    """Append the group (prefix, c, d); return the number of groups."""
    m = found.shape[1]
    for k in range(m - 2):
        found[size, k] = prefix[k]
    found[size, m - 2] = c
    found[size, m - 1] = d
    return size + 1


@njit(cache=True, nogil=True)
def full(found: Any, size: int, count: int) -> Any:
    """Tell whether there may be no room for all groups of one more prefix."""
    return size + count * (count - 1) // 2 > found.shape[0]


@njit(cache=True, nogil=True)
def _byte_heads(levels: Any, sums: Any, cost: Any, top: Any, first: int, zero: Any, y: Any) -> Any:
    """Return, per column c, what the prefix and c keep without y, and y's sum, in half levels.

    ``top`` holds the n largest of the prefix; the cost of c is taken off.
    """
    count, n = levels.shape[0], top.shape[0]
    heads = np.zeros(count, np.float64)
    rest = 0
    for k in range(n - 2):
        rest += sad_pair(top, k, zero, 0)
    high = sad_pair(top, n - 2, zero, 0) if n > 1 else 0
    for c in range(first, count):
        if n > 1:
            heads[c] = 2 * rest + high + sums[c] + sad_pair(top, n - 2, levels, c)
        heads[c] += sad_pair(y, c, zero, 0) - cost[c]
    return heads


@njit(cache=True, nogil=True)
def price_bytes(
    levels: Any,
    sums: Any,
    cost: Any,
    limit: float,
    n: int,
    prefixes: Any,
    y: Any,
    found: Any,
) -> Any:
    """Find the groups whose value in half levels, less their columns' costs, exceeds ``limit``.

    Parameters
    ----------
    levels : uint8 array, shape (C, R), padded to 32 bytes; C >= 4
    sums : int64 array, shape (C,)
        Sums of the levels.
    cost : float64 array, shape (C,)
    limit : float
        Groups below it may be found too, by three half levels of integer rounding.
    n : int
    prefixes : int64 array, shape (P, m - 2)
    y : uint8 array, shape (C + 2, R), scratch
    found : int64 array, shape (K, m)
        Filled; K >= C (C - 1) / 2.

    Returns
    -------
    prefixes done, groups found
    """
    count = levels.shape[0]
    zero, carry = np.zeros((1, levels.shape[1]), np.uint8), np.empty(levels.shape[1], np.uint8)
    top = np.empty((n, levels.shape[1]), np.uint8)
    sad = np.empty((TILE_ROWS, count), np.int32)
    last = np.empty(count, np.int32)
    for c in range(count):
        last[c] = np.int32(np.ceil(sums[c] - cost[c]))
    size = 0
    for p in range(prefixes.shape[0]):
        prefix = prefixes[p]
        if full(found, size, count):
            return p, size
        first = begin(levels, prefix, n, top, carry, y)
        heads = _byte_heads(levels, sums, cost, top, first, zero, y)
        bar = limit + paid(cost, prefix)
        size = _triangle(levels, last, heads, bar, prefix, first, y, sad, found, size)
    return prefixes.shape[0], size


@njit(cache=True, nogil=True)
def _triangle(
    levels: Any,
    last: Any,
    heads: Any,
    limit: float,
    prefix: Any,
    first: int,
    y: Any,
    sad: Any,
    found: Any,
    size: int,
) -> int:
    """Compare all pairs c < d behind a prefix with the limit; return the number of groups found."""
    count = levels.shape[0]
    for c in range(first, count - 1, TILE_ROWS):
        three = y[c : c + TILE_ROWS]
        for d in range(c + 1, count, TILE_COLS):
            sad_tile(three, 0, levels, min(d, count - TILE_COLS), sad)
        for q in range(min(TILE_ROWS, count - 1 - c)):
            head = np.int32(min(_HIGHEST, np.floor(limit - heads[c + q])))
            size = _collect(sad[q], last, head, c + q, prefix, found, size)
    return size


@njit(cache=True, nogil=True)
def _collect(values: Any, last: Any, head: Any, c: int, prefix: Any, found: Any, size: int) -> int:
    """Append the groups (prefix, c, d) with d > c whose value exceeds ``head``."""
    best = values[c + 1] + last[c + 1]
    for d in range(c + 1, values.shape[0]):
        x = values[d] + last[d]
        best = x if x > best else best
    if best <= head:
        return size
    for d in range(c + 1, values.shape[0]):
        if values[d] + last[d] > head:
            size = put(found, size, prefix, c, d)
    return size
