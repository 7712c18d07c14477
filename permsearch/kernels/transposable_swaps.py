"""Annealing by swaps for transposable N:M with small blocks, by the patterns of their columns.

A column of a block keeps n of its m rows: one of few patterns. With all columns of a block but one
fixed, the block is worth the largest of ``rest[a] + sums[c, a]`` over the patterns a of column c in
the hole, where ``rest[a]`` is the best that the others do when every row still has to have n. That
is exact for any column in the hole, and is worked out once for all of them. Rows are treated as
the columns of the transpose.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
from numba import njit

from permsearch.kernels.rng import below, unit

_PARTNERS = 8


def column_patterns(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the patterns of a column, and what the other columns may have beside each.

    Returns
    -------
    bool array (A, m)
        The rows that a column keeps.
    int64 array (A, T, m - 1)
        Patterns of the other columns that complete it to n in every row.
    """
    rows = np.array([[i in kept for i in range(m)] for kept in combinations(range(m), n)])
    beside = [
        [other for other in product(range(len(rows)), repeat=m - 1) if _complete(rows, a, other, n)]
        for a in range(len(rows))
    ]
    return rows, np.array(beside, dtype=np.int64).reshape(len(rows), -1, m - 1)


def _complete(rows: np.ndarray, a: int, other: tuple[int, ...], n: int) -> bool:
    return bool((rows[[a, *other]].sum(axis=0) == n).all())


@njit(cache=True, nogil=True)
def pattern_sums(columns, order, rows, sums):
    """Fill what each column holds in the rows of each pattern, for all blocks that it runs through.

    Parameters
    ----------
    columns : float32 array (C, taps, R)
    order : int64 array (R,)
        Order of the rows.
    rows : bool array (A, m)
    sums : float32 array (C, A, taps * R / m)
        Filled.
    """
    m = rows.shape[1]
    blocks = order.shape[0] // m
    taps = columns.shape[1]
    line = np.empty((m, taps * blocks), np.float32)
    for c in range(columns.shape[0]):
        for t in range(taps):
            column = columns[c, t]
            for i in range(m):
                for b in range(blocks):
                    line[i, t * blocks + b] = column[order[b * m + i]]
        for a in range(rows.shape[0]):
            out = sums[c, a]
            out[:] = np.float32(0.0)
            for i in range(m):
                if rows[a, i]:
                    kept = line[i]
                    for b in range(out.shape[0]):
                        out[b] += kept[b]


@njit(cache=True, nogil=True, fastmath=True)
def _fill_rest(sums, order, place, beside, rest):
    """Work out what the group of a place holds without it, for each pattern of what comes in."""
    others = beside.shape[2]
    m = others + 1
    first = place // m * m
    members = np.empty(others, np.int64)
    k = 0
    for p in range(first, first + m):
        if p != place:
            members[k] = order[p]
            k += 1
    line = np.empty(rest.shape[1], np.float32)
    for a in range(rest.shape[0]):
        out = rest[a]
        for t in range(beside.shape[1]):
            line[:] = sums[members[0], beside[a, t, 0]]
            for k in range(1, others):
                add = sums[members[k], beside[a, t, k]]
                for b in range(line.shape[0]):
                    line[b] += add[b]
            if t == 0:
                out[:] = line
            else:
                for b in range(line.shape[0]):
                    out[b] = line[b] if line[b] > out[b] else out[b]


# Small functions on parts of large arrays are inlined: handing over arrays would cost as much time
# as they take.
@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _with_six(rest, p, sums, c):
    """Return what a group holds with column c at its place p; six patterns, as 2:4 has."""
    total = np.float32(0.0)
    for b in range(sums.shape[2]):
        x = rest[p, 0, b] + sums[c, 0, b]
        y = rest[p, 1, b] + sums[c, 1, b]
        x = x if x > y else y
        y = rest[p, 2, b] + sums[c, 2, b]
        z = rest[p, 3, b] + sums[c, 3, b]
        y = y if y > z else z
        x = x if x > y else y
        y = rest[p, 4, b] + sums[c, 4, b]
        z = rest[p, 5, b] + sums[c, 5, b]
        y = y if y > z else z
        total += x if x > y else y
    return total


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _with(rest, p, sums, c, line):
    """Return what a group holds with column c at its place p."""
    if sums.shape[1] == 6:
        return np.float64(_with_six(rest, p, sums, c))
    for b in range(line.shape[0]):
        line[b] = rest[p, 0, b] + sums[c, 0, b]
    for a in range(1, sums.shape[1]):
        for b in range(line.shape[0]):
            x = rest[p, a, b] + sums[c, a, b]
            line[b] = x if x > line[b] else line[b]
    total = np.float32(0.0)
    for b in range(line.shape[0]):
        total += line[b]
    return np.float64(total)


@njit(cache=True, nogil=True)
def group_values(sums, order, beside, rest, valid, worth):
    """Fill what every group holds; `rest` of its first place and `valid` go with it."""
    m = beside.shape[2] + 1
    line = np.empty(sums.shape[2], np.float32)
    valid[:] = False
    for g in range(worth.shape[0]):
        place = g * m
        _fill_rest(sums, order, place, beside, rest[place])
        valid[place] = True
        worth[g] = _with(rest, place, sums, order[place], line)


@njit(cache=True, nogil=True, fastmath=True, inline="always")
def _swapped(sums, order, p, q, beside, tables, line):
    """Return what two groups hold after the items of two of their places are swapped."""
    rest, valid, _ = tables
    if not valid[p]:
        _fill_rest(sums, order, p, beside, rest[p])
        valid[p] = True
    if not valid[q]:
        _fill_rest(sums, order, q, beside, rest[q])
        valid[q] = True
    return _with(rest, p, sums, order[q], line), _with(rest, q, sums, order[p], line)


@njit(cache=True, nogil=True)
def _homes(count, m):
    """Return the group of every place: dividing costs more than looking it up."""
    homes = np.empty(count, np.int64)
    for p in range(count):
        homes[p] = p // m
    return homes


@njit(cache=True, nogil=True)
def swap_scatter(sums, order, beside, tables, tries, state):
    """Return the root of the mean square of what random swaps change."""
    m = beside.shape[2] + 1
    worth = tables[2]
    line = np.empty(sums.shape[2], np.float32)
    total = 0.0
    done = 0
    for _ in range(tries):
        p, q = below(state, order.shape[0]), below(state, order.shape[0])
        if p // m != q // m:
            one, two = _swapped(sums, order, p, q, beside, tables, line)
            total += (one + two - worth[p // m] - worth[q // m]) ** 2
            done += 1
    return math.sqrt(total / max(1, done))


@njit(cache=True, nogil=True, fastmath=True)
def swap_phase(sums, order, beside, tables, temperatures, tries, state):
    """Propose swaps of items in different groups, at falling temperatures.

    Parameters
    ----------
    sums : float32 array (C, A, B)
        From `pattern_sums`.
    order : int64 array (C,)
        Updated.
    beside : int64 array (A, T, m - 1)
    tables : tuple
        rest float32 (C, A, B), valid bool (C,) and worth float64 (C / m,); from `group_values`,
        updated.
    temperatures : tuple
        At the first and the last proposal, in units of the scores.
    tries : int
    state : uint64 array (1,)

    Returns
    -------
    int
        Swaps that were accepted.
    """
    _, valid, worth = tables
    m = beside.shape[2] + 1
    count = order.shape[0]
    first, last = temperatures
    line = np.empty(sums.shape[2], np.float32)
    homes = _homes(count, m)
    accepted = 0
    p = 0
    for turn in range(tries):
        if turn % _PARTNERS == 0:  # a place's tables stay in the cache for some partners
            p = below(state, count)
        q = below(state, count)
        g, h = homes[p], homes[q]
        if g == h:
            continue
        one, two = _swapped(sums, order, p, q, beside, tables, line)
        gain = one + two - worth[g] - worth[h]
        if gain <= 0.0:
            heat = first + (last - first) * turn / tries
            if heat <= 0.0 or gain < -20.0 * heat or gain < heat * math.log(1.0 - unit(state)):
                continue
        order[p], order[q] = order[q], order[p]
        worth[g], worth[h] = one, two
        for k in range(m):
            valid[g * m + k] = valid[g * m + k] and g * m + k == p
            valid[h * m + k] = valid[h * m + k] and h * m + k == q
        accepted += 1
    return accepted
