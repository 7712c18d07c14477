"""How much weight graphs can have in which every node has the same degree.

A partition into groups of M is a graph of degree M - 1, so its weight is at most

    D(u) = d sum u + 1/2 sum_i (sum of the d largest over j of w_ij - u_i - u_j),   d = M - 1,

whatever the numbers u. The best u is approached by minimising a smoothed D, at falling
temperatures, with a quasi-Newton method; D itself is then evaluated in float64 and rounded up.
At the minimum of the smoothed function the sigmoids are a fractional graph of degree d, which is
the subgradient the outer search needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_TEMPERATURES = (1.0, 0.2, 0.04)  # in units of the spread of a node's weights
_ROUNDING = 1e-12  # relative; float64 sums of these lengths are off by far less
_BLOCK = 1 << 18  # entries held in temporaries


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Weights with their node means taken out, for the smoothed problem only."""

    base: Floats
    spread: Floats
    centred: Singles


def _blocks(count: int) -> Iterator[slice]:
    step = max(1, _BLOCK // count)
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def dual_limit(weights: Floats, duals: Floats, degree: int) -> float:
    """Return D(duals), rounded up: no graph of this degree weighs more.

    Parameters
    ----------
    weights
        Symmetric, shape (C, C); the diagonal is ignored.
    duals
        One number per node, any values.
    degree
        Partners of every node, below C.
    """
    count = len(weights)
    best = magnitude = 0.0
    for rows in _blocks(count):
        reduced = weights[rows] - duals[rows, None] - duals[None, :]
        reduced[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = -np.inf
        top = np.partition(reduced, count - degree, axis=1)[:, count - degree :]
        best += float(top.sum())
        magnitude += float(np.abs(top).sum())
    total = degree * float(duals.sum()) + best / 2
    return total + _ROUNDING * (2 * degree * float(np.abs(duals).sum()) + magnitude)


def _graph(weights: Floats) -> Graph:
    count = len(weights)
    base = (weights.sum(axis=1) - weights.diagonal()) / max(1, count - 2)
    base -= base.sum() / (2 * (count - 1))
    centred = np.empty(weights.shape, dtype=np.float32)
    for rows in _blocks(count):
        centred[rows] = weights[rows] - base[rows, None] - base[None, :]
    np.fill_diagonal(centred, 0)
    spread = np.sqrt(np.einsum("ij,ij->i", centred, centred, dtype=np.float64) / count)
    flat = 1e-12 * float(np.abs(base).max()) + 1e-30
    spread = np.maximum(spread, max(1e-2 * float(spread.mean()), flat))
    np.fill_diagonal(centred, -1e4 * spread)
    return Graph(base, spread, centred)


def _scaled(graph: Graph, duals: Floats, root: Singles, rows: slice) -> Singles:
    narrow = duals.astype(np.float32)
    reduced: Singles = graph.centred[rows] - narrow[rows, None]
    reduced -= narrow[None, :]
    reduced *= root[rows, None]
    reduced *= root[None, :]
    return reduced


def _smoothed(point: Floats, graph: Graph, degree: int, temperature: float) -> tuple[float, Floats]:
    """Return the smoothed D and its gradient at duals given in units of the spread."""
    duals = point * graph.spread
    root = (1 / np.sqrt(graph.spread * temperature)).astype(np.float32)
    value = degree * float(duals.sum())
    degrees = np.empty(len(point))
    for rows in _blocks(len(point)):
        reduced = _scaled(graph, duals, root, rows)
        small = np.exp(-np.abs(reduced))
        soft = np.maximum(reduced, 0) + np.log1p(small)
        value += 0.5 * float((soft @ (1 / root)) @ (1 / root[rows]))
        share = np.where(reduced > 0, 1, small) / (1 + small)
        degrees[rows] = share.sum(axis=1, dtype=np.float64)
    return value, graph.spread * (degree - degrees)


def matching(graph: Graph, duals: Floats) -> Singles:
    """Return the fractional graph, shape (C, C), that belongs to the last temperature."""
    root = (1 / np.sqrt(graph.spread * _TEMPERATURES[-1])).astype(np.float32)
    shares = _scaled(graph, duals - graph.base, root, slice(0, len(duals)))
    np.clip(shares, -60, 60, out=shares)
    np.exp(-shares, out=shares)
    shares += 1
    np.reciprocal(shares, out=shares)
    np.fill_diagonal(shares, 0)
    return shares


def best_duals(weights: Floats, degree: int) -> tuple[float, Floats, Graph]:
    """Return the smallest limit found, its duals, and the graph they were found on.

    Deterministic; O(C^2) per evaluation, at most 120 evaluations, fewer above 2048 nodes.
    """
    from scipy.optimize import minimize

    graph = _graph(weights)
    duals = graph.base
    limit = dual_limit(weights, duals, degree)
    if float(graph.spread.max()) <= 2e-12 * float(np.abs(graph.base).max()) + 1e-29:
        return limit, duals, graph  # all pairs weigh the same
    point = np.full(len(weights), 0.7)
    steps = int(np.clip(1.6e8 / len(weights) ** 2, 8, 40))
    for temperature in _TEMPERATURES:
        answer = minimize(
            _smoothed,
            point,
            args=(graph, degree, temperature),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 15},
        )
        point = answer.x
        candidate = graph.base + point * graph.spread
        value = dual_limit(weights, candidate, degree)
        if value < limit:
            limit = value
        duals = candidate
    return limit, duals, graph
