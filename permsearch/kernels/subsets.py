"""The values of all m-subsets of a few columns, with the work that subsets share done once.

With X the sum of the n - 1 largest of m - 1 columns and Y the n-th largest, adding a column d
keeps X + max(Y, d) in each row. Subsets that have m - 1 columns in common thus cost one maximum
and one addition a row each.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["subset_plan", "subset_values"]

_ROWS_24 = 512  # rows per block: the columns of an entry stay in the first cache
_ROWS = 256  # the same for the general kernel, which also holds m - 1 sorted prefixes
_LEAVES = 4  # subsets that share one triple in an entry of a 2:4 plan


@cache
def subset_plan(w: int) -> NDArray[np.int64]:
    """Return entries (a, b, c, d0..d3, s0..s3): the 2:4 subsets to value from the triple a, b, c.

    Triples come from Turan's construction (three parts; a triple inside one part, or two of a part
    and one of the next), which meets every 4-subset with the fewest triples known: 20 for 8
    columns, 84 for 12. An entry with fewer than four subsets repeats its last one.
    """
    rank: dict[tuple[int, ...], int] = {s: i for i, s in enumerate(combinations(range(w), 4))}
    triples: dict[tuple[int, ...], list[int]] = {
        t: [] for t in combinations(range(w), 3) if _in_turan(t)
    }
    for subset in rank:
        options = [t for t in combinations(subset, 3) if t in triples]
        # fill an entry that is already open before another one is begun
        chosen = max(options, key=lambda t: (len(triples[t]) % _LEAVES, -len(triples[t])))
        triples[chosen].append(next(d for d in subset if d not in chosen))
    entries = []
    for triple, leaves in triples.items():
        for first in range(0, len(leaves), _LEAVES):
            some = leaves[first : first + _LEAVES]
            some += some[-1:] * (_LEAVES - len(some))
            ranks = [rank[tuple(sorted((*triple, d)))] for d in some]
            entries.append([*triple, *some, *ranks])
    return np.array(entries, dtype=np.int64)


def _in_turan(triple: tuple[int, ...]) -> bool:
    """Tell whether a triple belongs to Turan's construction over the parts i mod 3."""
    a, b, c = sorted(i % 3 for i in triple)
    return a == c or (a, b, c) in {(0, 0, 1), (1, 1, 2), (0, 2, 2)}


@njit(fastmath=True, nogil=True, cache=True)
def _four_leaves(a: Any, b: Any, c: Any, d: Any, out: Any) -> None:
    """Fill out[0:4] with the 2:4 values of {a, b, c} plus each of the four columns of ``d``."""
    d0, d1, d2, d3 = d
    top = s0 = s1 = s2 = s3 = np.float32(0.0)
    for r in range(a.shape[0]):
        x = a[r]
        y = b[r]
        z = c[r]
        high = x if x > y else y
        low = x if x < y else y
        inner = high if high < z else z
        top += high if high > z else z
        mid = low if low > inner else inner
        s0 += mid if mid > d0[r] else d0[r]
        s1 += mid if mid > d1[r] else d1[r]
        s2 += mid if mid > d2[r] else d2[r]
        s3 += mid if mid > d3[r] else d3[r]
    out[0] = top + s0
    out[1] = top + s1
    out[2] = top + s2
    out[3] = top + s3


@njit(nogil=True, cache=True)
def _values_24(columns: Any, window: Any, plan: Any, out: Any) -> None:
    """Fill ``out`` with the 2:4 value of every 4-subset of the window."""
    rows = columns.shape[1]
    four = np.empty(4, np.float32)
    out[:] = 0.0
    for r0 in range(0, rows, _ROWS_24):
        r1 = min(rows, r0 + _ROWS_24)
        for e in range(plan.shape[0]):
            p = plan[e]
            # a row first, then its part: only that keeps the slice contiguous for the compiler
            a = columns[window[p[0]]][r0:r1]
            b = columns[window[p[1]]][r0:r1]
            c = columns[window[p[2]]][r0:r1]
            leaves = (
                columns[window[p[3]]][r0:r1],
                columns[window[p[4]]][r0:r1],
                columns[window[p[5]]][r0:r1],
                columns[window[p[6]]][r0:r1],
            )
            _four_leaves(a, b, c, leaves, four)
            for i in range(4):
                if i == 0 or p[7 + i] != p[6 + i]:
                    out[p[7 + i]] += four[i]


@njit(fastmath=True, nogil=True, cache=True)
def _push(sorted_in: Any, column: Any, sorted_out: Any, carry: Any) -> None:
    """Write the lists with ``column`` inserted, row by row; the smallest value drops out."""
    rows = column.shape[0]
    carry[:rows] = column
    for i in range(sorted_in.shape[0]):
        source = sorted_in[i]
        target = sorted_out[i]
        for r in range(rows):
            x = source[r]
            y = carry[r]
            target[r] = x if x > y else y
            carry[r] = x if x < y else y


@njit(fastmath=True, nogil=True, cache=True)
def _sum(values: Any, rows: int) -> Any:
    """Return the sum of the first ``rows`` entries."""
    s = np.float32(0.0)
    for r in range(rows):
        s += values[r]
    return s


@njit(fastmath=True, nogil=True, cache=True)
def _sum_max(a: Any, b: Any) -> Any:
    """Return the sum over the rows of ``b`` of the larger of two values."""
    s = np.float32(0.0)
    for r in range(b.shape[0]):
        s += a[r] if a[r] > b[r] else b[r]
    return s


@njit(nogil=True, cache=True)
def _values(columns: Any, window: Any, n: int, m: int, out: Any) -> None:
    """Fill ``out`` with the n:m value of every m-subset, walked as a tree of prefixes."""
    w = window.shape[0]
    lists = np.zeros((m, n, _ROWS), np.float32)  # lists[d]: the n largest of d columns
    carry = np.empty(_ROWS, np.float32)
    at = np.empty(m, np.int64)
    out[:] = 0.0
    for r0 in range(0, columns.shape[1], _ROWS):
        r1 = min(columns.shape[1], r0 + _ROWS)
        index = 0
        depth = 0
        at[0] = -1
        while depth >= 0:
            if depth == m - 1:
                above = 0.0
                for i in range(n - 1):
                    above += _sum(lists[depth, i], r1 - r0)
                for last in range(at[depth] + 1, w):
                    column = columns[window[last]][r0:r1]
                    out[index] += above + _sum_max(lists[depth, n - 1], column)
                    index += 1
                depth -= 1
                continue
            at[depth] += 1
            if at[depth] > w - m + depth:
                depth -= 1
                continue
            column = columns[window[at[depth]]][r0:r1]
            _push(lists[depth], column, lists[depth + 1], carry)
            at[depth + 1] = at[depth]
            depth += 1


@njit(nogil=True, cache=True)
def subset_values(columns: Any, window: Any, n: int, m: int, plan: Any, out: Any) -> None:
    """Fill ``out`` with the value of every m-subset of the window's columns.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    window : int64 array, shape (w,)
        Columns of the window.
    n, m : int
    plan : int64 array
        `subset_plan(w)`; read for 2:4 only.
    out : float64 array, shape (C(w, m),)
        In the order of `split_table`.
    """
    if n == 2 and m == 4:
        _values_24(columns, window, plan, out)
    else:
        _values(columns, window, n, m, out)
