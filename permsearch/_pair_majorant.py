"""The best pairwise function above the sum of the N largest of M values.

Wanted: a symmetric phi with ``sum over the pairs of a group of phi(x, y) >= sum of its N largest``
for all values. It is enough to find phi on a grid of knots. Write every value as a weighted mean
of its two neighbouring knots; the sum of the N largest is convex, so it is at most the mean over
independently drawn knots, and so is the bilinear extension of phi exactly that mean. Values above
the last knot are cut off there: each unit above it adds at most one unit to the sum.

The N largest of a group depend on how often each knot occurs, so the constraints are the
multisets of M knots, and the best phi for a given joint distribution of pairs is a linear program.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST_GROUP = 8
_CONSTRAINTS = 2400  # multisets of M knots; a program of this size takes 20 to 200 ms
_MOST_KNOTS = 20
_APART = 1e-2  # least distance of knots, and the largest knot: far outside these limits the
_TOP = 16.0  # program is ill-conditioned and there is nothing to gain
_ITERATIONS = 20_000  # of the simplex method, against cycling; a usual program needs hundreds
_REPAIR = 1e-11  # added to what the program's tolerance and float64 sums may have left open


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Knots and the constraints of a majorant on them.

    Attributes
    ----------
    knots
        Ascending, the first is 0; values are in units of their row's N/M quantile.
    pairs
        How often each unordered pair of knots occurs in each multiset, shape (multisets, pairs).
    kept
        Sum of the N largest of each multiset.
    per_group
        Pairs in a group, M (M - 1) / 2.
    """

    knots: Floats
    pairs: Floats
    kept: Floats
    per_group: float

    @property
    def upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Both knots of every unordered pair."""
        return np.triu_indices(len(self.knots))


@dataclass(frozen=True, slots=True, eq=False)
class Majorant:
    """phi = singles[k] + singles[l] + plus[k] @ plus[l] - minus[k] @ minus[l] on a grid's knots."""

    singles: Floats
    plus: Floats
    minus: Floats


def knot_count(m: int) -> int:
    """Return how many knots keep the linear program for groups of `m` small."""
    count = 2
    multisets = m + 1
    while multisets * (count + m) // count <= _CONSTRAINTS and count < _MOST_KNOTS:
        multisets = multisets * (count + m) // count
        count += 1
    return count


def pick_knots(values: Floats, share: float, count: int) -> Floats:
    """Return at most `count` quantiles of scaled values, 0 and 1 among them.

    Parameters
    ----------
    values
        A sample of the scores, each divided by its row's quantile, so that `share` of them are at
        least 1.
    share
        N / M.
    count
        Knots wanted; ties may leave fewer.
    """
    below = max(1, round((count - 1) / 2))
    above = count - 1 - below
    low = np.quantile(values, np.linspace(0, 1 - share, below + 1)[1:-1])
    high = np.quantile(values, np.linspace(1 - share, 1 - 0.06 * share, above + 1)[1:])
    knots = [0.0]
    for knot in (*low[low < 1 - _APART], 1.0, *high[(high > 1) & (high < _TOP)]):
        if knot >= knots[-1] + _APART:
            knots.append(float(knot))
    return np.array(knots)


def make_grid(knots: Floats, n: int, m: int) -> Grid:
    """Return the constraints of all multisets of `m` knots."""
    picks = np.array(list(itertools.combinations_with_replacement(range(len(knots)), m)))
    counts = (picks[:, :, None] == np.arange(len(knots))).sum(axis=1).astype(np.float64)
    first, second = np.triu_indices(len(knots))
    pairs = np.where(
        first == second,
        counts[:, first] * (counts[:, first] - 1) / 2,
        counts[:, first] * counts[:, second],
    )
    kept = knots[picks[:, m - n :]].sum(axis=1)
    return Grid(knots, pairs, kept, m * (m - 1) / 2)


def cheapest(
    grid: Grid, costs: Sequence[Floats], centre: Floats | None, radius: float
) -> tuple[Floats, float] | None:
    """Return the majorant whose worst expectation is smallest, and that expectation.

    Parameters
    ----------
    grid
        Knots and constraints.
    costs
        Joint weights of pairs of knots, each of shape (knots, knots).
    centre, radius
        No entry moves further than `radius` from `centre`; no limit without a centre.

    Returns
    -------
    tuple or None
        phi as a symmetric matrix (valid up to the solver's tolerance), and its largest cost;
        None when the solver gives up.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    first, second = grid.upper
    rows = np.array([_fold(cost, first, second) for cost in costs])
    unit = np.abs(rows).max()
    if not unit > 0:
        return None
    size = len(first)
    limits = hstack([csr_array(-grid.pairs), csr_array((len(grid.kept), 1))])
    cuts = csr_array(np.hstack([rows / unit, np.full((len(rows), 1), -1.0)]))
    objective = np.zeros(size + 1)
    objective[-1] = 1.0
    box: list[tuple[float | None, float | None]] = [(None, None)] * (size + 1)
    if centre is not None:
        middle = centre[first, second]
        box[:size] = list(zip(middle - radius, middle + radius, strict=True))
    answer = linprog(
        objective,
        A_ub=vstack([limits, cuts], format="csr"),
        b_ub=np.concatenate([-grid.kept, np.zeros(len(rows))]),
        bounds=box,
        method="highs",
        options={"maxiter": _ITERATIONS},
    )
    if answer.status != 0 or answer.x is None:
        return None
    phi = np.zeros((len(grid.knots), len(grid.knots)))
    phi[first, second] = phi[second, first] = answer.x[:size]
    return phi, float(answer.x[-1]) * float(unit)


def _fold(cost: Floats, first: NDArray[np.intp], second: NDArray[np.intp]) -> Floats:
    folded = cost[first, second] + cost[second, first]
    return np.where(first == second, folded / 2, folded)


def factor(grid: Grid, phi: Floats, weights: Floats) -> Majorant:
    """Return phi as singles plus a difference of squares, repaired to be valid in float64.

    The linear program's vertices have few squares, which makes the column sums cheap. What is
    returned is checked against every constraint, so the quality of the split does not matter.

    Parameters
    ----------
    grid
        Knots and constraints.
    phi
        Symmetric matrix from `cheapest`.
    weights
        Share of the values at each knot, summing to 1; the split is centred on them.
    """
    mean = phi @ weights
    singles = mean - 0.5 * float(weights @ mean)
    root = np.sqrt(np.maximum(weights, 1e-6))
    rest = (phi - singles[:, None] - singles[None, :]) * root[:, None] * root[None, :]
    values, vectors = np.linalg.eigh(rest)
    scaled = vectors * np.sqrt(np.abs(values)) / root[:, None]
    large = np.abs(values) > 1e-9 * max(float(np.abs(values).max()), 1e-300)
    plus = scaled[:, large & (values > 0)]
    minus = scaled[:, large & (values < 0)]
    squares = plus @ plus.T - minus @ minus.T
    whole = singles[:, None] + singles[None, :] + squares
    missing = float((grid.kept - grid.pairs @ whole[grid.upper]).max())
    lift = max(0.0, missing) / grid.per_group + _REPAIR * (1 + float(np.abs(whole).max()))
    return Majorant(singles + lift / 2, plus, minus)
