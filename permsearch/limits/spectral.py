"""Limits for patterns that keep or drop blocks, from the singular values of the scores.

Let rows be cut into G groups of r and columns into H groups of c, X (R x G) and Y (C x H) their
0/1 indicators, and M (G x H) the mask of the K blocks kept: the value is <X'BY, M>. Write B as
overall mean, means of rows and columns, and a doubly centred rest B~. With w the share of blocks
kept in a row's (a column's) group,

    value = sum of row sums and column sums, weighted by w, less the total, and <X'B~Y, M~>,

and since the columns of X and of Y are orthogonal, von Neumann's and Cauchy's inequalities bound
the last term by the root of r c (sum of the min(G, H) - 1 largest squared singular values of B~)
and of |M~|^2 = K (1 + f) - G / c sum of squared column shares - H / r sum of squared row shares,
f = K / (G H). All is then maximised over the shares, which is a concave problem: the dual is
evaluated, so that any stage of the search for its minimum is a limit.

Blocks of one column (vectors) allow weights on the columns as well: with D diagonal and B only
centred by columns (and, where every group keeps as many, by any number for each row),

    <X'B, M> <= column sums, weighted by w, and |X'B D^-1| |M D|, |M D|^2 = sum of d^2 G (w - w^2).

That is what matrices with columns of very different scales need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from permsearch.limits.rounding import scaled, up
from permsearch.limits.rows import Scores
from permsearch.limits.section import lowest

Floats: TypeAlias = NDArray[np.float64]

_POWERS = (0.25, 0.75)  # of a column's scatter, as its weight
_HALVINGS = 40  # of the interval of a price
_SECTIONS = 24  # golden ones, of the interval of the root's tangent
_SLACK = 2.0**-48  # of eigenvalues, for each row of their matrix
_FLAT = 1e-6  # least weight of a column, relative to the largest


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares w of one axis: ``sum gain w``, ``sum (a w - b w^2)`` under the root, ``sum w``."""

    gain: Floats
    linear: Floats
    square: Floats
    total: float

    def most(self, slope: float) -> float:
        """Return an upper limit of the largest sum of gain and slope times what is rooted."""
        worth = self.gain + slope * self.linear
        bend = slope * self.square
        low, high = float((worth - 2 * bend).min()), float(worth.max())
        for _ in range(_HALVINGS):
            price = (low + high) / 2
            if self._best(worth - price, bend).sum() > self.total:
                low = price
            else:
                high = price
        rest = worth - high
        share = self._best(rest, bend)
        return high * self.total + float((rest * share - bend * share**2).sum())

    def _best(self, worth: Floats, bend: Floats) -> Floats:
        curved = bend > 0
        share = np.where(worth > 0, 1.0, 0.0)
        np.divide(worth, 2 * bend, out=share, where=curved)
        return np.clip(share, 0.0, 1.0)


def _largest(axes: tuple[_Shares, ...], constant: float, rooted: float, energy: float) -> float:
    """Return an upper limit of constant, gains, and the root of energy times what is rooted.

    The root of z is at most z / (2 t) + t / 2 for every t; the least of these limits is sought.
    """
    scale = math.sqrt(max(energy, 0.0))

    def at(tangent: float) -> float:
        slope = scale / (2 * tangent)
        part = sum(axis.most(slope) for axis in axes)
        return constant + part + slope * rooted + scale * tangent / 2

    most = rooted + sum(float(np.maximum(axis.linear, 0).sum()) for axis in axes)
    if scale == 0 or most <= 0:
        return constant + sum(axis.most(0.0) for axis in axes)
    middle = float(np.log(most)) / 2
    return lowest(lambda power: at(float(np.exp(power))), middle - 14, middle, _SECTIONS)


def energy(matrix: Floats, count: int) -> float:
    """Return the sum of the `count` largest squared singular values, rounded up."""
    whole = float(np.einsum("ij,ij->", matrix, matrix))
    side = int(min(matrix.shape))
    if count <= 0 or whole == 0:
        return 0.0
    if count >= side:
        return whole * (1 + side * _SLACK)
    gram = matrix @ matrix.T if matrix.shape[0] == side else matrix.T @ matrix
    values = np.linalg.eigvalsh(gram)
    return min(whole, float(values[side - count :].sum())) + whole * side * _SLACK


def vector_spectral(scores: Scores, v: int, kept: int, *, balanced: bool = False) -> float:
    """Return what `kept` vectors of `v` rows in a column hold at most, however rows are grouped.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0; `v` divides R.
    v
        Rows of a group.
    kept
        Vectors kept in the whole matrix.
    balanced
        Whether every group of rows keeps as many.

    Returns
    -------
    float
        Rounded up. O(min(R, C)^3).
    """
    unit, matrix = scaled(scores)
    if unit == 0:
        return 0.0
    best = _weighted(matrix, v, kept, _POWERS, balanced=balanced)
    if not balanced:
        best = min(best, _doubly(matrix, (v, 1), kept))
    return up(unit * (best + _SLACK * float(matrix.sum())))


def _weighted(
    matrix: Floats, v: int, kept: int, powers: tuple[float, ...], *, balanced: bool
) -> float:
    """Return the least limit of vectors with powers of the columns' scatters as their weights."""
    groups = len(matrix) // v
    means = matrix.mean(axis=0)
    centred = matrix - means
    scatter = np.sqrt(np.einsum("ij,ij->j", centred, centred))
    total = kept / groups
    best = np.inf
    for power in powers:
        weight = np.maximum(scatter, max(_FLAT * float(scatter.max()), 1e-30)) ** power
        narrow = centred / weight
        if balanced:
            inverse = 1 / weight
            narrow -= np.outer(narrow @ inverse / (inverse @ inverse), inverse)
        root = groups * weight**2
        shares = _Shares(means * len(matrix), root, root, total)
        best = min(best, _largest((shares,), 0.0, 0.0, v * energy(narrow, groups - 1)))
    return best


def block_spectral(scores: Scores, shape: tuple[int, int], kept: int) -> float:
    """Return what `kept` blocks of `shape` hold at most, however rows and columns are grouped.

    Where an axis does not move, sum its groups first and use `vector_spectral` on the rest.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0; the block's sides divide both.
    shape
        Rows and columns of a block.
    kept
        Blocks kept in the whole matrix.
    """
    height, width = shape
    unit, matrix = scaled(scores)
    both = up(unit * (_doubly(matrix, shape, kept) + _SLACK * float(matrix.sum())))
    by_rows = vector_spectral(scores, height, kept * width)
    return min(both, by_rows, vector_spectral(scores.T, width, kept * height))


def ragged_spectral(scores: Scores, groups: int, area: int) -> float:
    """Return what masks of `area` entries hold at most whose rows show few different patterns.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0.
    groups
        Groups of rows of any sizes; the rows of a group keep the same columns, and rows may be
        dropped altogether.
    area
        Entries kept in the whole matrix.
    """
    unit, matrix = scaled(scores)
    if unit == 0:
        return 0.0
    means = matrix.mean(axis=0)
    best = np.inf
    for centre in (means, np.full_like(means, means.mean()), np.zeros_like(means)):
        rest = matrix - centre
        count = np.full(len(means), float(len(matrix)))
        shares = _Shares(centre * len(matrix), count, np.zeros_like(means), area / len(matrix))
        best = min(best, _largest((shares,), 0.0, 0.0, energy(rest, groups)))
    return up(unit * (best + _SLACK * float(matrix.sum())))


def live_spectral(scores: Scores, v: int, live: int, kept: int) -> float:
    """Return what rows hold at most that keep some of the columns that are live in their group.

    Every group of `v` rows has `live` columns, and every row keeps `kept` of those: the two
    levels of V:N:M and of hierarchical N:M. With a threshold t for each row, a row holds no more
    than kept t and what its live columns exceed t by.

    Parameters
    ----------
    scores
        Shape (R, C), >= 0; `v` divides R.
    v
        Rows of a group.
    live, kept
        Live columns of a group, and how many of them a row keeps.
    """
    unit, matrix = scaled(scores)
    if unit == 0:
        return 0.0
    groups, width = len(matrix) // v, matrix.shape[1]
    ordered = np.sort(matrix, axis=1)
    best = np.inf
    for place in sorted({kept, (kept + live) // 2, live}):
        level = ordered[:, width - place - 1] if place < width else np.zeros(len(matrix))
        above = np.maximum(0.0, matrix - level[:, None])
        limit = _weighted(above, v, groups * live, (0.5,), balanced=True)
        best = min(best, kept * float(level.sum()) + limit)
    return up(unit * (best + _SLACK * width * float(matrix.sum())))


def _doubly(matrix: Floats, shape: tuple[int, int], kept: int) -> float:
    """Return the limit of the doubly centred scores, not rounded up."""
    height, width = shape
    groups, strips = matrix.shape[0] // height, matrix.shape[1] // width
    share = kept / (groups * strips)
    mean = float(matrix.mean())
    rows, cols = matrix.mean(axis=1) - mean, matrix.mean(axis=0) - mean
    rest = matrix - mean - rows[:, None] - cols
    axes = (
        _axis(rows * matrix.shape[1], strips / height, share * len(rows)),
        _axis(cols * matrix.shape[0], groups / width, share * len(cols)),
    )
    power = height * width * energy(rest, min(groups, strips) - 1)
    return _largest(axes, share * matrix.size * mean, kept * (1 + share), power)


def _axis(gain: Floats, square: float, total: float) -> _Shares:
    return _Shares(gain, np.zeros_like(gain), np.full_like(gain, square), total)
