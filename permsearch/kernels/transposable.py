"""Best transposable masks: n kept in every row and in every column of an m x m block.

A greedy start is completed along best paths and then improved by positive alternating cycles
until none is left, which is optimal: the masks are the flows of a network (Klein: A primal method
for minimal cost flows, Management Science 14, 1967). Its nodes are the m columns alone: the arc
j -> h is worth the most that any row gains by giving up column j for column h. A cycle moves two
or three rows, so only their part of the table of arcs is worked out again.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import njit

from permsearch.kernels.transposable_cycles import (
    BIG,
    fill_rows,
    from_column,
    positive_cycle,
    walk_back,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOLERANCE = 2.0**-46  # of the power of two above a block's largest entry; less is rounding
_LEVELS = 256  # of the greedy's order
_WORTH_SPLITTING = 1 << 19  # entries of a thread


@njit(cache=True, nogil=True)
def _scaled(scores, block):
    """Fill the block with the scores scaled to [0, 1); return the exponent of the power of two."""
    top = np.float64(0.0)
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            top = max(top, np.float64(scores[i, j]))
    exponent = math.frexp(top)[1]
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] = math.ldexp(np.float64(scores[i, j]), -exponent)
    return exponent


@njit(cache=True, nogil=True)
def _greedy(block, n, kept, rows, cols, work):
    """Keep entries from large to small, roughly, where row and column have room.

    The block's entries lie in [0, 1).
    """
    level, order, start = work
    m = block.shape[0]
    start[:] = 0
    for i in range(m):
        for j in range(m):
            x = _LEVELS - 1 - np.int64(block[i, j] * _LEVELS)
            level[i * m + j] = x
            start[x + 1] += 1
    for k in range(_LEVELS):
        start[k + 1] += start[k]
    for e in range(m * m):
        order[start[level[e]]] = e
        start[level[e]] += 1
    kept[:] = False
    rows[:] = 0
    cols[:] = 0
    for k in range(m * m):
        i, j = order[k] // m, order[k] % m
        if rows[i] < n and cols[j] < n:
            kept[i, j] = True
            rows[i] += 1
            cols[j] += 1


@njit(cache=True, nogil=True)
def _scratch(m):
    """Return what `_solve` works with."""
    tables = (np.empty((m, m)), np.empty((m, m)), np.empty((m, m)), np.empty(m))
    work = (np.empty(m), np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64))
    counts = (np.empty(m, np.int64), np.empty(m, np.int64))
    sorting = (
        np.empty(m * m, np.int64),
        np.empty(m * m, np.int64),
        np.empty(_LEVELS + 1, np.int64),
    )
    return np.empty((m, m)), tables, work, counts, sorting, np.empty((m + 1, 3), np.int64)


@njit(cache=True, nogil=True)
def _solve(n, kept, scratch):
    """Find the best mask of the scaled block; potentials of the columns are in the work."""
    block, tables, work, counts, sorting, moves = scratch
    give, take, gain, _ = tables
    m = block.shape[0]
    _greedy(block, n, kept, counts[0], counts[1], sorting)
    for i in range(m):
        for j in range(m):
            give[i, j] = block[i, j] if kept[i, j] else BIG
            take[i, j] = -BIG if kept[i, j] else block[i, j]
    for j in range(m):
        from_column(give, take, j, gain)
    fill_rows(block, n, kept, counts[0], counts[1], tables, work, moves)
    while True:
        at = positive_cycle(gain, _TOLERANCE, work)
        if at < 0:
            break
        walk_back(block, at, at, kept, tables, work[1], moves)


@njit(cache=True, nogil=True)
def best_masks(blocks, n, masks):
    """Fill the best mask of every block.

    Parameters
    ----------
    blocks : float array (B, m, m)
        Scores, finite and >= 0.
    n : int
        1 <= n <= m.
    masks : bool array (B, m, m)
        Filled. No mask is better by more than m 2^-45 of the block's largest entry.
    """
    scratch = _scratch(blocks.shape[1])
    for b in range(blocks.shape[0]):
        _scaled(blocks[b], scratch[0])
        _solve(n, masks[b], scratch)


@njit(cache=True, nogil=True)
def block_levels(blocks, n, values, levels):
    """Fill what the best mask of every block keeps, and prices of its rows that prove it.

    With prices u and any columns in the place of the block's own, no mask keeps more than n times
    the sum of u and, for each column, the n largest of its entries less u. For the block's own
    columns that is what the best mask keeps.

    Parameters
    ----------
    blocks : float array (B, m, m)
    n : int
    values : float64 array (B,)
    levels : float64 array (B, m)
        Prices of the rows.
    """
    m = blocks.shape[1]
    scratch = _scratch(m)
    block, tables, work = scratch[0], scratch[1], scratch[2]
    give, take, reach = tables[0], tables[1], work[0]
    kept = np.empty((m, m), np.bool_)
    for b in range(blocks.shape[0]):
        exponent = _scaled(blocks[b], block)
        _solve(n, kept, scratch)
        total = 0.0
        for i in range(m):
            low, high = BIG, -BIG
            for j in range(m):
                if kept[i, j]:
                    total += np.float64(blocks[b, i, j])
                    low = min(low, give[i, j] - reach[j])
                else:
                    high = max(high, take[i, j] - reach[j])
            level = low if high == -BIG else (low + high) / 2
            levels[b, i] = math.ldexp(level, exponent)
        values[b] = total


def masks_of(blocks: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Return the best mask of every block, on several threads where there are many.

    Blocks do not depend on each other, so the masks are the same on any number of threads.
    """
    blocks = blocks.astype(
        np.result_type(blocks, np.float32), copy=False
    )  # kernels take no float16
    masks = np.empty(blocks.shape, np.bool_)
    threads = min(numba.get_num_threads(), blocks.size // _WORTH_SPLITTING)
    if threads <= 1:
        best_masks(blocks, n, masks)
        return masks
    cuts = [len(blocks) * k // threads for k in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        parts = [pool.submit(best_masks, blocks[a:b], n, masks[a:b]) for a, b in pairwise(cuts)]
        for part in parts:
            part.result()
    return masks
