"""Best masks of V:N:M with N = 2: four live columns in every block, two kept of them in each row.

All sets of four of a block's M columns are tried. Per row the best two of i < j < k < l are

    max(s_ij, s_kl, hi_ij + hi_kl)

where s and hi are sum and maximum of a pair of columns: one table of pairs serves all sets.
Sets are screened in float32; those within its rounding of the best are summed in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

LIVE = 4  # columns of a block that are not dropped
_ULP = 2.0**-23
_MOST_EXPONENT = 1000  # of the scale: 2 ** 1024 is infinite
_TINY = 2.0**-125  # what underflow may take from a float32 that was below one


def pair_numbers(m: int) -> NDArray[np.int64]:
    """Return the numbers of the pairs of `m` columns in lexicographic order, int64 (m, m)."""
    numbers = np.zeros((m, m), np.int64)
    upper = np.triu_indices(m, 1)
    numbers[upper] = np.arange(len(upper[0]))
    return numbers + numbers.T


def set_count(m: int) -> int:
    """Return the number of sets of four of `m` columns."""
    return m * (m - 1) * (m - 2) * (m - 3) // 24


@njit(cache=True, nogil=True, fastmath=True)
def pair_tables(columns, members, first, last, high, both):
    """Fill the maximum and the sum of every pair of the member columns, rows first .. last-1."""
    m = members.shape[0]
    k = 0
    for i in range(m - 1):
        a = columns[members[i], first:last]
        for j in range(i + 1, m):
            b = columns[members[j], first:last]
            h = high[k]
            s = both[k]
            for r in range(a.shape[0]):
                x, y = a[r], b[r]
                h[r] = x if x > y else y
                s[r] = x + y
            k += 1


@njit(cache=True, nogil=True, fastmath=True)
def pair_value(h1, s1, h2, s2):
    """Return the sum over rows of the two largest of two pairs."""
    total = np.float32(0)
    for r in range(h1.shape[0]):
        x, y = s1[r], s2[r]
        top = x if x > y else y
        mixed = h1[r] + h2[r]
        total += mixed if mixed > top else top
    return total


@njit(cache=True, nogil=True)
def set_values(high, both, numbers, values):
    """Fill the value of every set of four, lexicographic; return the largest."""
    m = numbers.shape[0]
    best = np.float32(-1)
    at = 0
    for i in range(m - 3):
        for j in range(i + 1, m - 2):
            p = numbers[i, j]
            h1, s1 = high[p], both[p]
            for k in range(j + 1, m - 1):
                for n in range(k + 1, m):
                    q = numbers[k, n]
                    value = pair_value(h1, s1, high[q], both[q])
                    values[at] = value
                    best = value if value > best else best
                    at += 1
    return best


@njit(cache=True, nogil=True)
def top_two(a, b, c, d):
    """Return the sum of the two largest of four numbers."""
    x = a if a > b else b
    y = a if a < b else b
    z = c if c > d else d
    w = c if c < d else d
    low = y if y > w else w
    mid = x if x < z else z
    top = x if x > z else z
    return top + (mid if mid > low else low)


@njit(cache=True, nogil=True)
def strip_value(scores, first, last, a, b, c, d):
    """Return what rows first .. last-1 keep of four live columns, float64."""
    total = 0.0
    for r in range(first, last):
        row = scores[r]
        total += top_two(
            np.float64(row[a]), np.float64(row[b]), np.float64(row[c]), np.float64(row[d])
        )
    return total


@njit(cache=True, nogil=True)
def _choose(scores, first, last, start, values, m, least, live):
    """Find the best of the sets whose screened value is at least ``least``; return its value."""
    best = -1.0
    at = 0
    for i in range(m - 3):
        for j in range(i + 1, m - 2):
            for k in range(j + 1, m - 1):
                for n in range(k + 1, m):
                    if values[at] >= least:
                        a, b, c, d = start + i, start + j, start + k, start + n
                        exact = strip_value(scores, first, last, a, b, c, d)
                        if exact > best:
                            best = exact
                            live[0], live[1], live[2], live[3] = a, b, c, d
                    at += 1
    return best


@njit(cache=True, nogil=True)
def _turn(scores, first, v, scale, panel):
    """Fill the panel with the scaled columns of a strip."""
    for c0 in range(0, panel.shape[0], 64):
        for r in range(v):
            row = scores[first + r]
            for c in range(c0, min(c0 + 64, panel.shape[0])):
                panel[c, r] = row[c] * scale


@njit(cache=True, nogil=True)
def live_columns(scores, v, numbers, scale, live, value):
    """Find the best four live columns of every block.

    Parameters
    ----------
    scores : float array (R, C)
        float32 or float64; `v` divides R and M divides C.
    v : int
        Rows of a block.
    numbers : int64 array (M, M)
        From `pair_numbers`.
    scale : float
        Brings the scores below 1 (in the scores' type, a power of two).
    live : int64 array (R / v, C / M, 4)
        Overwritten: the columns, ascending; of equal sets the first in lexicographic order.
    value : float64 array (R / v, C / M)
        Overwritten: what the blocks keep.
    """
    m = numbers.shape[0]
    pairs = m * (m - 1) // 2
    panel = np.empty((scores.shape[1], v), np.float32)
    high = np.empty((pairs, v), np.float32)
    both = np.empty((pairs, v), np.float32)
    values = np.empty(m * (m - 1) * (m - 2) * (m - 3) // 24, np.float32)
    members = np.arange(m)
    for t in range(live.shape[0]):
        _turn(scores, t * v, v, scale, panel)
        for g in range(live.shape[1]):
            pair_tables(panel[g * m : g * m + m], members, 0, v, high, both)
            best = set_values(high, both, numbers, values)
            least = np.float32(best * (1 - (v + 8) * _ULP) - v * _TINY)
            value[t, g] = _choose(scores, t * v, t * v + v, g * m, values, m, least, live[t, g])


@njit(cache=True, nogil=True)
def mark_two(scores, v, live, mask):
    """Set the mask at the two largest of each row's live columns; ties go to the first listed."""
    for r in range(scores.shape[0]):
        row, out = scores[r], mask[r]
        sets = live[r // v]
        for g in range(sets.shape[0]):
            first = -1
            second = -1
            for q in range(4):
                c = sets[g, q]
                if first < 0 or row[c] > row[first]:
                    second = first
                    first = c
                elif second < 0 or row[c] > row[second]:
                    second = c
            out[first] = True
            out[second] = True


def best_live(scores: NDArray[Any], v: int, m: int) -> tuple[I64, NDArray[np.float64]]:
    """Return the best live columns of every block and what it keeps: see `live_columns`."""
    shape = (scores.shape[0] // v, scores.shape[1] // m)
    live, value = np.empty((*shape, LIVE), np.int64), np.empty(shape)
    exponent = int(np.frexp(float(scores.max()))[1])
    scale = np.ldexp(1.0, min(-exponent, _MOST_EXPONENT))
    live_columns(scores, v, pair_numbers(m), scale, live, value)
    return live, value
