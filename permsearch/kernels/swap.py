"""Every swap of two columns priced at once, and the best of them applied.

Everything is indexed by column, not by position: values[a, b] is what the group of column a keeps
with b in the place of a. Swapping a and b then gains

    values[a, b] + values[b, a] - own[a] - own[b],      own[a] = values[a, a] of a's group,

and a swap outdates nothing but the rows of the columns in the two groups. Entries of two columns
of one group are `NEVER`, so no search meets them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from permsearch.kernels.holes import hole_from_levels, two_levels
from permsearch.kernels.value import group_value

__all__ = ["NEVER", "apply_swaps", "best_partners", "group_holes", "improving_pairs", "set_rows"]

NEVER = -(1 << 29)  # below every gain in float32 and in levels; twice it still fits int32
_BLOCK = 64


@njit(cache=True, nogil=True)
def group_holes(
    columns: Any, order: Any, groups: Any, n: int, m: int, holes: Any, above: Any
) -> None:
    """Fill holes[k*m + i] and above[k*m + i] for place i of the group groups[k].

    Parameters
    ----------
    columns : float32 or uint8 array, shape (C, R)
    order : int64 array, shape (C,)
    groups : int64 array, shape (K,)
    n, m : int
    holes : array of the columns' type, shape (K * m, R)
        Per row the n-th largest of the other m - 1 columns of the group.
    above : float64 array, shape (K * m,)
        Sum over the rows of the n - 1 largest of them.
    """
    rows = columns.shape[1]
    levels = np.empty((n + 1, rows), columns.dtype)
    carry = np.empty(rows, columns.dtype)
    for k in range(groups.shape[0]):
        members = order[groups[k] * m : (groups[k] + 1) * m]
        total = two_levels(columns, members, n, levels, carry)
        for i in range(m):
            hole = holes[k * m + i]
            kept = hole_from_levels(columns[members[i]], levels[n - 1], levels[n], hole)
            above[k * m + i] = total - kept


@njit(cache=True, nogil=True)
def set_rows(values: Any, own: Any, rows: Any, part: Any, base: Any, extra: Any, m: int) -> None:
    """Write values[rows[i], c] = part[i, c] + base[i] + extra[c], m rows to a group.

    ``own`` gets the entry of the row's own column; entries of the columns of one group become
    `NEVER`.
    """
    for i in range(rows.shape[0]):
        row = values[rows[i]]
        source = part[i]
        add = base[i]
        for c in range(row.shape[0]):
            row[c] = source[c] + add + extra[c]
        own[rows[i]] = row[rows[i]]
        first = i - i % m
        for j in range(first, first + m):
            row[rows[j]] = NEVER


@njit(cache=True, nogil=True)
def _transposed(values: Any, b0: int, b1: int, a0: int, a1: int, out: Any) -> None:
    for b in range(b0, b1):
        for a in range(a0, a1):
            out[a - a0, b - b0] = values[b, a]


@njit(cache=True, nogil=True, fastmath=True)
def _row_gains(row: Any, across: Any, own: Any, gains: Any) -> Any:
    """Fill ``gains`` with row + across - own and return the largest."""
    top = row[0] + across[0] - own[0]
    for i in range(gains.shape[0]):
        gain = row[i] + across[i] - own[i]
        gains[i] = gain
        top = gain if gain > top else top
    return top


@njit(cache=True, nogil=True)
def best_partners(values: Any, own: Any, best: Any, partner: Any) -> None:
    """Fill best[a] and partner[a] with the best swap of column a with a later column."""
    count = values.shape[0]
    across = np.empty((_BLOCK, _BLOCK), values.dtype)
    gains = np.empty(_BLOCK, values.dtype)
    best[:] = NEVER
    partner[:] = 0
    for a0 in range(0, count, _BLOCK):
        a1 = min(count, a0 + _BLOCK)
        for b0 in range(a0, count, _BLOCK):
            b1 = min(count, b0 + _BLOCK)
            _transposed(values, b0, b1, a0, a1, across)
            for a in range(a0, a1):
                first = max(b0, a + 1)
                if first >= b1:
                    continue
                size = b1 - first
                other = across[a - a0][first - b0 : b1 - b0]
                top = _row_gains(values[a][first:b1], other, own[first:b1], gains[:size])
                if top - own[a] > best[a]:
                    best[a] = top - own[a]
                    for i in range(size):
                        if gains[i] == top:
                            partner[a] = first + i
                            break


@njit(cache=True, nogil=True)
def improving_pairs(values: Any, own: Any, least: float) -> Any:
    """Return all swaps (a, b) with a gain above ``least``, in any number, with their gains."""
    count = values.shape[0]
    pairs = [(0, 0, 0.0)]
    for a in range(count):
        for b in range(a + 1, count):
            gain = np.float64(values[a, b] + values[b, a] - own[a] - own[b])
            if gain > least:
                pairs.append((a, b, gain))
    return pairs[1:]


@njit(cache=True, nogil=True)
def apply_swaps(
    columns: Any, order: Any, position: Any, left: Any, right: Any, limits: Any, current: Any
) -> Any:
    """Swap left[i] with right[i] in turn wherever float64 confirms it and the groups are fresh.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    order, position : int64 arrays, shape (C,)
        Position to column and back; changed in place.
    left, right : int64 arrays, shape (K,)
        Columns, the most promising swap first.
    limits : tuple
        n, m, and the gain that a swap must exceed.
    current : float64 array, shape (groups,)
        Values of the groups, changed in place.

    Returns
    -------
    verdict : int8 array, shape (K,)
        1 applied, -1 refuted, 0 not looked at since a group had changed already.
    touched : bool array, shape (groups,)
    """
    n, m, least = limits
    touched = np.zeros(current.shape[0], np.bool_)
    verdict = np.zeros(left.shape[0], np.int8)
    for i in range(left.shape[0]):
        p = position[left[i]]
        q = position[right[i]]
        g = p // m
        h = q // m
        if touched[g] or touched[h]:
            continue
        order[p], order[q] = right[i], left[i]
        value_g = group_value(columns, order[g * m : (g + 1) * m], n)
        value_h = group_value(columns, order[h * m : (h + 1) * m], n)
        if value_g + value_h - current[g] - current[h] > least:
            position[left[i]], position[right[i]] = q, p
            current[g], current[h] = value_g, value_h
            touched[g] = touched[h] = True
            verdict[i] = 1
        else:
            order[p], order[q] = left[i], right[i]
            verdict[i] = -1
    return verdict, touched
