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

if TYPE_CHECKING:
    from numpy.typing import NDArray

BIG = 1e300
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


@njit(cache=True, nogil=True, fastmath=True)
def _from_column(give, take, j, gain):
    """Work out the arcs that leave column j."""
    line = gain[j]
    for h in range(line.shape[0]):
        line[h] = -BIG
    for i in range(give.shape[0]):
        loss = give[i, j]
        if loss < BIG:
            row = take[i]
            for h in range(line.shape[0]):
                x = row[h] - loss
                line[h] = x if x > line[h] else line[h]


@njit(cache=True, nogil=True, fastmath=True)
def _into_column(give, take, h, gain, line):
    """Work out the arcs that enter column h."""
    for j in range(line.shape[0]):
        line[j] = -BIG
    for i in range(give.shape[0]):
        won = take[i, h]
        if won > -BIG:
            row = give[i]
            for j in range(line.shape[0]):
                x = won - row[j]
                line[j] = x if x > line[j] else line[j]
    for j in range(line.shape[0]):
        gain[j, h] = line[j]


@njit(cache=True, nogil=True)
def _row_of(give, take, j, h):
    """Return the row that the arc j -> h stands for."""
    best = -BIG
    at = 0
    for i in range(give.shape[0]):
        x = take[i, h] - give[i, j]
        if x > best:
            best = x
            at = i
    return at


@njit(cache=True, nogil=True)
def _relax(gain, least, reach, before, active):
    """Lengthen walks by one arc from every active column; return whether any got better."""
    m = reach.shape[0]
    moved = False
    for j in range(m):
        if active[j] == 0:
            continue
        active[j] = 0
        here = reach[j] - least
        line = gain[j]
        any_better = 0
        for h in range(m):
            x = here + line[h]
            better = x > reach[h]
            any_better |= better
            reach[h] = x + least if better else reach[h]
            before[h] = j if better else before[h]
            active[h] = 1 if better else active[h]
        if any_better:
            moved = True
    return moved


@njit(cache=True, nogil=True)
def _cycle(before, seen):
    """Return a column on a cycle of the pointers, -1 where there is none."""
    m = before.shape[0]
    seen[:] = -1
    for s in range(m):
        w = s
        while w >= 0 and seen[w] < 0:
            seen[w] = s
            w = before[w]
        if w >= 0 and seen[w] == s:
            return w
    return -1


@njit(cache=True, nogil=True)
def _positive_cycle(gain, least, work):
    """Return a column on a cycle of pointers that gains, -1 where none gains."""
    reach, before, active, seen = work
    reach[:] = 0.0
    before[:] = -1
    active[:] = 1
    for _ in range(4 * reach.shape[0]):
        if not _relax(gain, least, reach, before, active):
            return -1
        at = _cycle(before, seen)
        if at >= 0:
            return at
    return -1


@njit(cache=True, nogil=True)
def _exchange(block, i, j, h, kept, give, take):
    """Let row i give up column j for column h."""
    kept[i, j] = False
    take[i, j] = block[i, j]
    give[i, j] = BIG
    kept[i, h] = True
    give[i, h] = block[i, h]
    take[i, h] = -BIG


@njit(cache=True, nogil=True)
def _walk(block, start, stop, kept, tables, before, moves):
    """Carry out the exchanges along the pointers back from `start`; return their number.

    All rows are looked up before any of them changes.
    """
    give, take, gain, line = tables
    count = 0
    h = start
    while before[h] >= 0:
        j = before[h]
        moves[count, 0] = _row_of(give, take, j, h)
        moves[count, 1] = j
        moves[count, 2] = h
        count += 1
        h = j
        if h == stop:
            break
    for k in range(count):
        _exchange(block, moves[k, 0], moves[k, 1], moves[k, 2], kept, give, take)
    for k in range(count):
        _from_column(give, take, moves[k, 1], gain)
        _from_column(give, take, moves[k, 2], gain)
        _into_column(give, take, moves[k, 1], gain, line)
        _into_column(give, take, moves[k, 2], gain, line)
    return count


@njit(cache=True, nogil=True)
def _best_paths(take, gain, s, reach, before, active):
    """Find the best simple paths from row s: columns leave in falling order, as Dijkstra's do."""
    m = reach.shape[0]
    for j in range(m):
        reach[j] = take[s, j]
        before[j] = -1
        active[j] = 1
    for _ in range(m):
        u = -1
        for j in range(m):
            if active[j] and reach[j] > -BIG / 2 and (u < 0 or reach[j] > reach[u]):
                u = j
        if u < 0:
            break
        active[u] = 0
        for h in range(m):
            x = reach[u] + gain[u, h]
            if active[h] and gain[u, h] > -BIG / 2 and x > reach[h]:
                reach[h] = x
                before[h] = u


@njit(cache=True, nogil=True)
def _fill(block, n, kept, rows, cols, tables, work, moves):
    """Complete rows along best simple paths; cycles that gain may still be there."""
    give, take, gain, line = tables
    reach, before = work[0], work[1]
    m = block.shape[0]
    for s in range(m):
        while rows[s] < n:
            _best_paths(take, gain, s, reach, before, work[2])
            end = -1
            for j in range(m):
                if cols[j] < n and reach[j] > -BIG / 2 and (end < 0 or reach[j] > reach[end]):
                    end = j
            first = end
            while before[first] >= 0:
                first = before[first]
            _walk(block, end, -1, kept, tables, before, moves)
            kept[s, first] = True
            give[s, first] = block[s, first]
            take[s, first] = -BIG
            _from_column(give, take, first, gain)
            _into_column(give, take, first, gain, line)
            rows[s] += 1
            cols[end] += 1


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
        _from_column(give, take, j, gain)
    _fill(block, n, kept, counts[0], counts[1], tables, work, moves)
    while True:
        at = _positive_cycle(gain, _TOLERANCE, work)
        if at < 0:
            break
        _walk(block, at, at, kept, tables, work[1], moves)


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
