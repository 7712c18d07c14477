"""Limits from sorting: each row, each column or the whole matrix keeps its largest entries.

They hold for every order of rows and columns. Sums are float64 and not rounded up, so that they
can be used as values too; `permsearch.limits.rounding.up` makes limits of them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.floating[Any]]

_BLOCK = 1 << 22  # entries partitioned at a time


def top_entries(scores: Scores, count: int) -> float:
    """Return the sum of the `count` largest entries, wherever they stand.

    Examples
    --------
    >>> top_entries(np.array([[3.0, 1.0], [2.0, 5.0]]), 2)
    8.0
    """
    drop = scores.size - count
    if drop <= 0:
        return float(scores.sum(dtype=np.float64))
    if count <= 0:
        return 0.0
    return float(np.partition(scores, drop, axis=None)[drop:].sum(dtype=np.float64))


def row_top(rows: Scores, count: int) -> float:
    """Return the sum over rows of their `count` largest entries.

    Parameters
    ----------
    rows
        Scores, shape (R, C), >= 0.
    count
        Entries that a row keeps at most.

    Examples
    --------
    >>> row_top(np.array([[3.0, 1.0], [2.0, 5.0]]), 1)
    8.0
    """
    height, width = rows.shape
    drop = width - count
    if drop <= 0:
        return float(rows.sum(dtype=np.float64))
    total = 0.0
    step = max(1, _BLOCK // width)
    for start in range(0, height if count > 0 else 0, step):
        top = np.partition(rows[start : start + step], drop, axis=1)[:, drop:]
        total += float(top.sum(dtype=np.float64))
    return total


def row_bound(rows: Scores, n: int, m: int) -> float:
    """Return the sum over rows of the largest `n` / `m` of the entries: N:M of any groups.

    For a single group this is the value itself.
    """
    return row_top(rows, rows.shape[1] // m * n)


def stacked(scores: Scores, v: int) -> NDArray[np.float64]:
    """Return what the best, the second best ... vectors of `v` rows hold in each column at most.

    Parameters
    ----------
    scores
        Shape (R, C), `v` divides R.

    Returns
    -------
    float64 array, shape (R / v, C)
        Sums of the v largest entries of a column, of the v next, and so on: any vectors of one
        column, v rows each and no row twice, hold no more than as many of these.
    """
    ordered = -np.sort(-scores, axis=0)
    sums: NDArray[np.float64] = ordered.reshape(-1, v, scores.shape[1]).sum(1, dtype=np.float64)
    return sums


def vector_top(scores: Scores, v: int, kept: int) -> float:
    """Return what `kept` vectors of `v` rows in one column hold at most, however rows are grouped.

    Never above `top_entries` of as many entries.

    Examples
    --------
    >>> vector_top(np.array([[3.0, 1.0], [2.0, 5.0]]), 2, 1)
    6.0
    """
    return top_entries(stacked(scores, v), kept)


def block_top(scores: Scores, shape: tuple[int, int], kept: int) -> float:
    """Return what `kept` blocks of `shape` hold at most, however rows and columns are grouped."""
    height, width = shape
    by_rows = vector_top(scores, height, kept * width)
    return min(by_rows, vector_top(scores.T, width, kept * height))
