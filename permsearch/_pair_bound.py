"""A limit for every order of the columns, any size and small M, from pairs of columns.

With a majorant phi (`permsearch._pair_majorant`), a group keeps at most the sum over its pairs of
``w_ij = sum over rows r of t_r phi(a_ir / t_r, a_jr / t_r)``: rows may be scaled one by one, and
t_r, the row's N/M quantile, makes the per-row limit one of the majorants. The sum over all groups
is at most the largest weight of a graph of degree M - 1 (`permsearch._pair_degrees`).

The best phi depends on which pairs the graph prefers, and the other way round. Both are found in
turns: a linear program for phi over all graphs seen so far (cutting planes in a trust region),
then the graph for phi. Two or three rounds are enough. On matrices of more than 512 columns the
rounds see a sample of the columns; the limit itself is always computed from all of them.

Products are float32. Their worst-case rounding error, in any order of summation, is added.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permsearch._pair_degrees import best_duals, matching
from permsearch._pair_majorant import (
    LARGEST_GROUP,
    Floats,
    Grid,
    Majorant,
    cheapest,
    factor,
    knot_count,
    make_grid,
    pick_knots,
)
from permsearch.limits.value import Bound
from permsearch.stop import Progress, StoppingCriterion

MOST_COLUMNS = 4096
_SAMPLE_COLUMNS = 512
_SAMPLE_SIDE = 400  # rows and columns whose quantiles become the knots
_ROUNDS = 4
_ROWS = 128  # rows per product: few enough that the proven error of float32 stays near 1e-6
_RADIUS = 0.1  # of the trust region, in units of the rows' quantiles
_CLOSE = 1e-4  # relative distance of the linear program from the limit that ends the rounds
_ROUNDING = 1e-12
_REPAIRED = 1e-10  # relative, and more than what makes the majorant and its duals valid
_UNIT = 2.0**-24  # rounding unit of float32


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """Columns and the quantile of each row; rows whose quantile is 0 are set aside."""

    columns: NDArray[np.float32]
    quantiles: Floats
    knots: Floats

    def cells(self) -> Iterator[tuple[NDArray[np.intp], Floats, Floats]]:
        """Yield per block of rows the knot below each value, the way to the next, and t_r."""
        for first in range(0, len(self.quantiles), _ROWS):
            unit = self.quantiles[first : first + _ROWS]
            live = unit > 0
            block = self.columns[:, first : first + _ROWS][:, live] / unit[live]
            np.minimum(block, self.knots[-1], out=block)
            cell = np.searchsorted(self.knots, block, side="right") - 1
            np.minimum(cell, len(self.knots) - 2, out=cell)
            way = (block - self.knots[cell]) / np.diff(self.knots)[cell]
            yield cell, way, unit[live]


def _interpolate(table: Floats, cell: NDArray[np.intp], way: Floats) -> Floats:
    """Return the piecewise linear functions in the table's columns, stacked on the last axis."""
    slope = np.diff(table, axis=0)
    values: Floats = table[cell] + way[..., None] * slope[cell]
    return values


def _hats(scaled: _Scaled) -> Iterator[NDArray[np.float32]]:
    """Yield per block the weights of the knots, times the root of t_r: shape (C, rows, knots)."""
    identity = np.eye(len(scaled.knots))
    for cell, way, unit in scaled.cells():
        yield (_interpolate(identity, cell, way) * np.sqrt(unit)[:, None]).astype(np.float32)


def _uniform_cost(scaled: _Scaled, degree: int) -> Floats:
    """Return the joint weights of pairs of knots under the graph that joins all nodes equally."""
    count = len(scaled.columns)
    cost = np.zeros((len(scaled.knots), len(scaled.knots)))
    for hats in _hats(scaled):
        sums = hats.sum(axis=0, dtype=np.float64)
        flat = hats.reshape(-1, hats.shape[2])
        cost += sums.T @ sums - flat.T @ flat
    return cost * (degree / (2 * (count - 1)))


def _graph_cost(scaled: _Scaled, shares: NDArray[np.float32]) -> Floats:
    """Return the joint weights of pairs of knots under a fractional graph."""
    count = len(shares)
    cost = np.zeros((len(scaled.knots), len(scaled.knots)))
    for hats in _hats(scaled):
        partners = (shares @ hats.reshape(count, -1)).reshape(-1, hats.shape[2])
        cost += partners.T @ hats.reshape(-1, hats.shape[2])
    return cost / 2


def _weights(scaled: _Scaled, majorant: Majorant, degree: int) -> tuple[Floats, float, float]:
    """Return the pair weights without the singles, what singles add, and what rounding may."""
    count = len(scaled.columns)
    weights = np.zeros((count, count))
    singles = magnitude = error = 0.0
    for cell, way, unit in scaled.cells():
        single = _interpolate(majorant.singles[:, None], cell, way)[..., 0] @ unit
        singles += float(single.sum())
        magnitude += float(np.abs(majorant.singles).max()) * count * float(unit.sum())
        for sign, table in ((1, majorant.plus), (-1, majorant.minus)):
            if not table.shape[1]:
                continue
            squares = _interpolate(table, cell, way) * np.sqrt(unit)[:, None]
            flat = squares.reshape(count, -1).astype(np.float32)
            if sign > 0:
                weights += flat @ flat.T
            else:
                weights -= flat @ flat.T
            # |error of w_ij| <= terms * unit * |f_i| |f_j| <= half of that times |f_i|^2 + |f_j|^2
            norm = float(np.einsum("ij,ij->", flat, flat, dtype=np.float64))
            error += 1.01 * (flat.shape[1] + 4) * _UNIT * norm
    slack = error / 2 + _ROUNDING * (magnitude + error / _UNIT)
    return weights, degree * singles, degree * slack


@dataclass(frozen=True, slots=True, eq=False)
class _Round:
    """One majorant's limit without the constant part, and the graph that attains it nearly."""

    limit: float
    slack: float
    cost: Floats | None


def _evaluate(scaled: _Scaled, majorant: Majorant, degree: int, *, want_cost: bool) -> _Round:
    weights, constant, slack = _weights(scaled, majorant, degree)
    limit, duals, graph = best_duals(weights, degree)
    cost = _graph_cost(scaled, matching(graph, duals)) if want_cost else None
    return _Round(limit + constant + slack, slack, cost)


def _quantiles(columns: NDArray[np.float32], drop: int) -> Floats:
    """Return the smallest value that each row keeps when it drops its `drop` smallest."""
    parts = [
        np.partition(np.ascontiguousarray(columns[:, first : first + _ROWS].T), drop, axis=1)
        for first in range(0, columns.shape[1], _ROWS)
    ]
    return np.concatenate([part[:, drop] for part in parts]).astype(np.float64)


def _constant(scaled: _Scaled) -> float:
    """Return the sum of what exceeds the last knot, and of the rows that were set aside."""
    total = 0.0
    for first in range(0, len(scaled.quantiles), _ROWS):
        block = scaled.columns[:, first : first + _ROWS].astype(np.float64)
        top = scaled.quantiles[first : first + _ROWS] * scaled.knots[-1]
        total += float(np.maximum(block - top, 0).sum())
    return total


def _scale(columns: NDArray[np.float32], n: int, m: int, knots: int) -> _Scaled | None:
    """Return the columns with their rows' quantiles and the knots; None when all rows are empty."""
    quantiles = _quantiles(columns, len(columns) // m * (m - n))
    live = np.flatnonzero(quantiles > 0)
    if not live.size:
        return None
    rows = live[:: -(-live.size // _SAMPLE_SIDE)]
    sample = (columns[:: -(-len(columns) // _SAMPLE_SIDE), rows] / quantiles[rows]).ravel()
    return _Scaled(columns, quantiles, pick_knots(sample, n / m, knots))


def _rounds(
    scaled: _Scaled, grid: Grid, degree: int, stop: StoppingCriterion | None
) -> tuple[Majorant, _Round] | None:
    """Return the best majorant for these columns, and its limit without the constant part."""
    costs = [_uniform_cost(scaled, degree)]
    weights = costs[0].sum(axis=1) / costs[0].sum()
    centre: Floats | None = None
    best: tuple[Majorant, _Round] | None = None
    limit, radius, since = np.inf, _RADIUS, 0
    start, cpu = time.perf_counter(), time.process_time()
    for step in range(1, _ROUNDS + 1):
        answer = cheapest(grid, costs, centre, radius)
        if answer is None:
            break
        majorant = factor(grid, answer[0], weights)
        trial = _evaluate(scaled, majorant, degree, want_cost=True)
        assert trial.cost is not None
        costs.append(trial.cost)
        since = 0 if trial.limit < limit else since + 1
        if trial.limit < limit:
            limit, best, centre = trial.limit, (majorant, trial), answer[0]
        else:
            radius /= 2
        passed = Progress(
            step, time.perf_counter() - start, time.process_time() - cpu, limit, since
        )
        if limit - answer[1] < _CLOSE * abs(limit) or (stop is not None and stop(passed)):
            break
    return best


def pair_limit(
    columns: NDArray[np.float32],
    n: int,
    m: int,
    *,
    knots: int | None = None,
    stop: StoppingCriterion | None = None,
) -> Bound | None:
    """Return a limit that no order of the columns exceeds, or None where the method does not apply.

    It may lie above the per-row limit (strongly scaled columns, M above 4): take the smaller.

    Parameters
    ----------
    columns
        Scores, shape (C, R), float32, >= 0, scaled so that float32 products do not underflow
        (the largest near 1, as in a `Stack`).
    n, m
        Kept and group size, n < m, m divides C.
    knots
        Knots of the majorant, at least 2; default: as many as keep its linear program small.
    stop
        Asked after every round; its `best` is the limit without the part that no order changes.
    """
    count = len(columns)
    if not 2 <= m <= LARGEST_GROUP or count > MOST_COLUMNS or count < 2 * m:
        return None
    scaled = _scale(columns, n, m, knots or knot_count(m))
    if scaled is None:
        return None
    grid = make_grid(scaled.knots, n, m)
    degree = m - 1
    seen = scaled
    if count > _SAMPLE_COLUMNS:
        picked = np.random.default_rng(0).permutation(count)[:_SAMPLE_COLUMNS]
        seen = _Scaled(columns[picked], scaled.quantiles, scaled.knots)
    found = _rounds(seen, grid, degree, stop)
    if found is None:
        return None
    majorant, last = found
    if seen is not scaled:
        last = _evaluate(scaled, majorant, degree, want_cost=False)
    value = last.limit + _constant(scaled) * (1 + _ROUNDING)
    return Bound(value, "pair", slack=last.slack + _REPAIRED * abs(value))
