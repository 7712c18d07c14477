"""Exact values of orders: the sum of the N largest of every group, accumulated in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def group_value(columns: NDArray[Any], members: NDArray[Any], n: int) -> float:
    """Return the sum over rows of the `n` largest entries among the member columns."""
    m = members.shape[0]
    rows = columns.shape[1]
    top = np.zeros((n, rows), dtype=columns.dtype)
    carry = np.empty(rows, dtype=columns.dtype)
    for j in range(m):
        carry[:] = columns[members[j]]
        for level in range(min(j + 1, n)):  # insert into the sorted list, row by row
            best = top[level]
            for r in range(rows):
                a = best[r]
                b = carry[r]
                best[r] = a if a > b else b
                carry[r] = b if a > b else a
    total = 0.0
    for level in range(n):
        for r in range(rows):
            total += np.float64(top[level, r])
    return total


@njit(cache=True, nogil=True)
def group_values(columns: NDArray[Any], order: NDArray[Any], n: int, m: int) -> NDArray[Any]:
    """Return the value of every group of `m` consecutive positions, float64."""
    groups = order.shape[0] // m
    values = np.empty(groups, dtype=np.float64)
    for g in range(groups):
        values[g] = group_value(columns, order[g * m : (g + 1) * m], n)
    return values


@njit(cache=True, nogil=True)
def retained(columns: NDArray[Any], order: NDArray[Any], n: int, m: int) -> float:
    """Return the retained score of an order of the columns, float64."""
    total = 0.0
    for g in range(order.shape[0] // m):
        total += group_value(columns, order[g * m : (g + 1) * m], n)
    return total
