"""Linear assignment by Jonker and Volgenant's method, warm-started from column duals.

Jonker, Volgenant: A shortest augmenting path algorithm for dense and sparse linear assignment
problems, Computing 38 (1987). Costs are int32, so that arithmetic is exact: keep the absolute
value of costs and duals below 2**26. Every pass over a row is a plain minimum that LLVM turns into
vector code; positions are found in a second pass, which is cheaper than a branch per entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BIG = np.int32(1 << 30)
_FAR = np.int32(1 << 29)
_PASSES = 2  # of augmenting row reduction


@njit(cache=True, nogil=True)
def _smallest(row, v):
    """Return the smallest of row - v."""
    low = _BIG
    for j in range(row.shape[0]):
        x = row[j] - v[j]
        low = x if x < low else low
    return low


@njit(cache=True, nogil=True)
def _where(row, v, low):
    """Return the first place where row - v equals ``low``."""
    first = _BIG
    for j in range(row.shape[0]):
        at = np.int32(j) if row[j] - v[j] == low else _BIG
        first = at if at < first else first
    return first


@njit(cache=True, nogil=True)
def _where_equal(d, low):
    """Return the first place where d equals ``low``."""
    first = _BIG
    for j in range(d.shape[0]):
        at = np.int32(j) if d[j] == low else _BIG
        first = at if at < first else first
    return first


@njit(cache=True, nogil=True)
def _reduce_rows(cost, v, to_col, to_row, free):
    """Give every row its cheapest column, first come first served; return how many stay free.

    Inside a search most rows stay where they are: the diagonal is tried before the row is looked
    through for the place of its minimum.
    """
    left = 0
    for i in range(cost.shape[0]):
        low = _smallest(cost[i], v)
        j = np.int32(i) if cost[i, i] - v[i] == low else _where(cost[i], v, low)
        if to_row[j] < 0:
            to_row[j] = i
            to_col[i] = j
        else:
            free[left] = i
            left += 1
    return left


@njit(cache=True, nogil=True)
def _two_best(row, v):
    """Return the smallest and second smallest of row - v and their columns."""
    low = _smallest(row, v)
    j = _where(row, v, low)
    keep = v[j]
    v[j] = -_BIG
    second = _smallest(row, v)
    k = _where(row, v, second) if second == low else j
    v[j] = keep
    return low, j, second, k


@njit(cache=True, nogil=True)
def _augment_rows(cost, v, to_col, to_row, free, left):
    """One pass of augmenting row reduction: free rows bid; return how many are free after it."""
    at = 0
    after = 0
    bids = 2 * left
    while at < left:
        i = free[at]
        at += 1
        low, j, second, k = _two_best(cost[i], v)
        if low < second:
            v[j] -= second - low
        elif to_row[j] >= 0:
            j = k
        loser = to_row[j]
        to_col[i] = j
        to_row[j] = i
        if loser < 0:
            continue
        to_col[loser] = -1
        bids -= 1
        if low < second and bids > 0:
            at -= 1
            free[at] = loser
        else:
            free[after] = loser
            after += 1
    return after


@njit(cache=True, nogil=True)
def _relax(row, v, shift, dist, parent, i):
    """Shorten the distances through row i; return the smallest one."""
    low = _BIG
    for j in range(row.shape[0]):
        x = row[j] - v[j] - shift
        old = dist[j]
        nearer = x < old
        y = x if nearer else old
        dist[j] = y
        parent[j] = i if nearer else parent[j]
        low = y if y < low else low
    return low


@njit(cache=True, nogil=True)
def _shortest_path(cost, v, to_col, to_row, start, work):
    """Augment along a shortest path from a free row; return the number of rows scanned."""
    dist, parent, seen, seen_at, seen_v = work
    dist[:] = _BIG
    row = np.int32(start)
    low = _relax(cost[row], v, np.int32(0), dist, parent, row)
    count = 0
    while True:
        j = _where_equal(dist, low)
        row = to_row[j]
        if row < 0:
            break
        seen[count], seen_at[count], seen_v[count] = j, low, v[j]
        count += 1
        shift = cost[row, j] - v[j] - low
        # A finished column: too far to be the minimum, yet nearer than any path to it can get.
        dist[j] = _FAR
        v[j] = -_BIG
        low = _relax(cost[row], v, shift, dist, parent, row)
    for k in range(count):
        v[seen[k]] = seen_v[k] + seen_at[k] - low
    while True:
        row = parent[j]
        to_row[j] = row
        j, to_col[row] = to_col[row], j
        if row == start:
            break
    return count


@njit(cache=True, nogil=True)
def assign(cost, v, to_col, to_row):
    """Find the cheapest assignment of rows to columns.

    Parameters
    ----------
    cost : int32 array (n, k)
        At least as many columns as rows.
    v : int32 array (k,)
        Column duals. Where n = k any start is right, and one near the optimum's is fast; zeros
        otherwise, since columns that stay free have a dual of zero. Optimal duals on return.
    to_col, to_row : int32 arrays (n,) and (k,)
        Overwritten with each row's column and each column's row, -1 where it has none.

    Returns
    -------
    int
        Rows scanned by the shortest-path phase, a measure of the effort.
    """
    n = cost.shape[0]
    to_col[:] = -1
    to_row[:] = -1
    free = np.empty(n, np.int32)
    left = _reduce_rows(cost, v, to_col, to_row, free)
    for _ in range(_PASSES):
        left = _augment_rows(cost, v, to_col, to_row, free, left)
    width = cost.shape[1]
    work = (
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
    )
    scans = 0
    for k in range(left):
        scans += _shortest_path(cost, v, to_col, to_row, free[k], work)
    return scans


def assignment(cost: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return each row's column in a cheapest assignment, from a cold start."""
    n = len(cost)
    to_col, to_row = np.empty(n, np.int32), np.empty(n, np.int32)
    assign(cost, np.zeros(n, np.int32), to_col, to_row)
    return to_col
