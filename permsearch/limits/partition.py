"""The set-partitioning limit of few rows: every group of rows is listed.

With duals u, one a row, no partition of the rows into groups of V keeps more than

    sum u + min over lam of [ R / V lam + sum over all groups S of max(0, f(S) - u(S) - lam) ]

where f(S) is the most that a group keeps. A budget of K vectors for all groups together has a
price p: the limit is then K p and that of the partition with each vector of S worth its sum less p.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from permsearch.limits.rounding import scaled, up
from permsearch.limits.rows import Scores
from permsearch.limits.section import lowest

Floats = NDArray[np.float64]
I64 = NDArray[np.int64]

MOST_GROUPS = 50_000
_HOT, _COLD = 0.25, 1e-4  # temperatures, in units of the scatter of the groups' values
_COOLING = 4.0
_PRICES = 12  # tried by golden section
_AT_ONCE = 1 << 10  # groups whose sums are held at a time


def listable(count: int, v: int) -> bool:
    """Decide whether all groups of `v` rows out of `count` are few enough to be listed."""
    return comb(count, v) <= MOST_GROUPS


def dual_value(duals: Floats, worth: Floats, groups: int, least: float) -> tuple[float, float]:
    """Return the limit that duals prove, not rounded up, and its level.

    Parameters
    ----------
    duals
    worth
        What groups exceed their duals by; all those above `least` must be there.
    groups
        Groups in a partition.
    least
        The level is at least this.
    """
    ranked = np.sort(worth)[::-1]
    levels = np.append(ranked[ranked > least], least)
    above = np.concatenate([[0.0], np.cumsum(levels[:-1])])
    totals = groups * levels + above - np.arange(len(levels)) * levels
    best = int(np.argmin(totals))
    return float(duals.sum()) + float(totals[best]), float(levels[best])


def rounded(value: float, duals: Floats, terms: int) -> float:
    """Return a limit with what float64 sums may have lost.

    f(S) sums `terms` numbers, the limit one a dual: each addition errs by 2^-53 of the sum so
    far; a factor of eight covers groups that rounding puts on the wrong side of the level.
    """
    size = float(np.abs(duals).sum()) + abs(value)
    return value + (terms + len(duals)) * 2.0**-50 * size


def partition_limit(count: int, v: int, value_of: Callable[[I64], Floats]) -> float:
    """Return what a partition of `count` rows into groups of `v` keeps at most.

    Parameters
    ----------
    count, v
        `v` divides `count`, and the groups are `listable`.
    value_of
        What groups keep at most, shape (K,), for groups of rows, shape (K, v), every row sorted.

    Returns
    -------
    float
        Rounded up.
    """
    groups = np.array(list(combinations(range(count), v)), dtype=np.int64)
    parts = [value_of(groups[k : k + _AT_ONCE]) for k in range(0, len(groups), _AT_ONCE)]
    return _limit(groups, np.concatenate(parts), count)


def vector_partition(scores: Scores, v: int, kept: int, *, balanced: bool = False) -> float:
    """Return what `kept` vectors of `v` rows in a column hold at most, however rows are grouped.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0; groups of `v` rows are `listable`.
    v
        Rows of a group.
    kept
        Vectors kept in the whole matrix.
    balanced
        Whether every group of rows keeps as many.
    """
    each = kept * v // len(scores)

    def largest(sums: Floats) -> Floats:
        drop = sums.shape[1] - each
        top: Floats = (
            np.partition(sums, drop, axis=1)[:, drop:].sum(axis=1) if drop else sums.sum(1)
        )
        return top

    unit, matrix = scaled(scores)
    if balanced:
        return unit * partition_limit(len(matrix), v, lambda some: largest(_sums(matrix, some)))
    return unit * _priced(matrix, v, kept, lambda sums: sums)


def block_partition(scores: Scores, shape: tuple[int, int], kept: int) -> float:
    """Return what `kept` blocks of `shape` hold at most, however rows and columns are grouped.

    Every group of rows takes the columns in the order that suits it best.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0; groups of the block's rows are `listable`.
    shape
        Rows and columns of a block.
    kept
        Blocks kept in the whole matrix.
    """
    height, width = shape

    def chunks(sums: Floats) -> Floats:
        ordered = -np.sort(-sums, axis=1)
        chunk: Floats = ordered.reshape(len(sums), -1, width).sum(axis=2)
        return chunk

    unit, matrix = scaled(scores)
    return unit * _priced(matrix, height, kept, chunks)


def _priced(scores: Scores, v: int, kept: int, parts: Callable[[Floats], Floats]) -> float:
    """Return the limit at the best price of a part; `parts` makes them of sums of columns."""

    def at(price: float) -> float:
        def value_of(some: I64) -> Floats:
            excess: Floats = np.maximum(parts(_sums(scores, some)) - price, 0.0).sum(axis=1)
            return excess

        return up(kept * price) + partition_limit(len(scores), v, value_of)

    ordered = -np.sort(-scores.astype(np.float64), axis=0)[:v]
    high = float(parts(ordered.sum(axis=0)[None]).max())
    return min(at(0.0), lowest(at, 0.0, high, _PRICES)) if high else 0.0


def _sums(scores: Scores, groups: I64) -> Floats:
    """Return the column sums of groups of rows, float64, shape (K, C)."""
    sums: Floats = scores[groups].sum(axis=1, dtype=np.float64)
    return sums


def _limit(groups: I64, values: Floats, count: int) -> float:
    """Return the limit that duals from a falling temperature prove, rounded up."""
    from permsearch.certificates.duals import cooled
    from permsearch.certificates.pricing import Found

    v = groups.shape[1]
    if not values.any():
        return 0.0
    found = Found(groups, values)
    duals, unit = _first(groups, values, count)
    best, heat = np.inf, _HOT * unit
    while True:
        worth = found.reduced(duals)
        value, _ = dual_value(duals, worth, count // v, float(worth.min()))
        best = min(best, rounded(value, duals, 4 * v))
        if heat < _COLD * unit:
            return best
        duals = cooled(values, groups, duals, heat)
        heat /= _COOLING


def _first(groups: I64, values: Floats, count: int) -> tuple[Floats, float]:
    """Return least-squares duals, and how much the values scatter around them."""
    v = groups.shape[1]
    sums = np.bincount(groups.ravel(), np.repeat(values, v), count)
    times = len(groups) * v / count  # that a row occurs, and then with each other row:
    both = times * (v - 1) / max(1, count - 1)
    mean = float(values.sum()) * v / (times + (count - 1) * both) / count
    duals = (sums - both * mean * count) / max(times - both, 1e-9) if count > v else sums / v
    scatter = float(np.abs(values - duals[groups].sum(axis=1)).mean())
    return duals, max(scatter, 1e-9 * float(np.abs(values).max()))
