"""The limit of 1:2: the dual of maximum-weight perfect matching, odd sets included.

For any duals u and weights z >= 0 of odd sets B, no pairing keeps more than

    sum u + sum over B of z_B (|B| - 1) / 2 + C / 2 max over pairs (v_ij - u_i - u_j - z_ij)

with z_ij the weights of the sets that hold both: a pairing has C / 2 pairs, and at most
(|B| - 1) / 2 of them lie inside an odd set B. With the right sets the limit is the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.stack import Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

MOST_COLUMNS = 4096
_ROUNDS = 40  # of odd sets found where the linear program is fractional
_PARTNERS = 16
_FRACTION = 1e-6
_EXACT: Any = {"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10}


def pair_values(stack: Stack) -> Floats:
    """Return what every pair of columns keeps, float64, shape (C, C)."""
    from permsearch.kernels import groups

    values = np.empty((len(stack.columns), len(stack.columns)))
    groups.pair_values(stack.columns.astype(np.float64), values)
    return values


def matching_limit(
    stack: Stack, duals: Floats, sets: Sequence[I64], weights: Floats
) -> tuple[float, str, float]:
    """Return the limit that duals and weighted odd sets prove, its kind, and its slack."""
    count = len(duals)
    if any(len(odd) % 2 == 0 or len(np.unique(odd)) < len(odd) for odd in sets):
        raise ValueError("a set of a matching's proof is not odd")
    weights = np.maximum(weights, 0.0)
    short = _short(pair_values(stack), duals, sets, weights)
    inside = sum(w * (len(odd) // 2) for odd, w in zip(sets, weights, strict=True))
    value = float(duals.sum()) + float(inside) + count / 2 * float(short.max())
    terms = stack.columns.shape[1] + 2 * count + 8
    size = float(np.abs(duals).sum()) + float(inside) + abs(value)
    slack = float(terms * 2.0**-52 * size)
    return value + slack, "matching", slack


def _short(values: Floats, duals: Floats, sets: Sequence[I64], weights: Floats) -> Floats:
    """Return what each pair is worth beyond its duals and sets; -inf for a column with itself."""
    short = values - duals[:, None] - duals
    for odd, weight in zip(sets, weights, strict=True):
        short[np.ix_(odd, odd)] -= weight
    np.fill_diagonal(short, -np.inf)
    return short


def pair_proof(stack: Stack, order: I64) -> tuple[Floats, list[I64], Floats]:
    """Return duals, odd sets and weights that prove an optimal pairing, as well as they can.

    A linear program over promising pairs, with odd sets added where its solution is fractional:
    the odd cycles of a half-integral solution first.
    """
    values = pair_values(stack)
    pairs = _promising(values, order)
    sets: list[I64] = []
    for _ in range(_ROUNDS):
        duals, weights, x = _program(values, pairs, sets)
        missing = _missed(values, duals, sets, weights)
        if len(missing):
            pairs = np.unique(np.concatenate([pairs, missing]), axis=0)
            continue
        cycles = _odd_parts(len(values), pairs, x)
        known = {tuple(odd) for odd in sets}
        fresh = [odd for odd in cycles if tuple(odd) not in known]
        if not fresh:
            break
        sets += fresh
    # what the program's tolerance left short is made up for where it is short
    duals = duals + _short(values, duals, sets, weights).max(axis=1) / 2
    return duals, sets, weights


def _promising(values: Floats, order: I64) -> I64:
    count = len(values)
    means = (values.sum(axis=1) - values.diagonal()) / (count - 1)
    worth = values - means[:, None] - means
    np.fill_diagonal(worth, -np.inf)
    near = min(_PARTNERS, count - 1)
    best = np.argpartition(-worth, near - 1, axis=1)[:, :near]
    found = np.stack([np.repeat(np.arange(count), near), best.ravel()], axis=1)
    found = np.concatenate([found, order.reshape(-1, 2)])
    return np.unique(np.sort(found, axis=1), axis=0)


def _program(values: Floats, pairs: I64, sets: list[I64]) -> tuple[Floats, Floats, Floats]:
    """Return duals of the columns, weights of the sets, and the (fractional) pairing."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    count, size = len(values), len(pairs)
    each = np.repeat(np.arange(size), 2)
    once = csr_matrix((np.ones(2 * size), (pairs.ravel(), each)), shape=(count, size))
    inside = np.zeros((len(sets), size))
    for row, odd in zip(inside, sets, strict=True):
        row[np.isin(pairs, odd).all(axis=1)] = 1.0
    limits: dict[str, Any] = {"A_eq": once, "b_eq": np.ones(count), "options": _EXACT}
    if sets:
        limits |= {"A_ub": csr_matrix(inside), "b_ub": [len(odd) // 2 for odd in sets]}
    worth = values[pairs[:, 0], pairs[:, 1]]
    scale = float(np.abs(worth).max()) or 1.0
    solved: Any = linprog(-worth / scale, method="highs", **limits)
    weights = -solved.ineqlin.marginals if sets else np.empty(0)
    return -solved.eqlin.marginals * scale, np.asarray(weights) * scale, solved.x


def _missed(values: Floats, duals: Floats, sets: list[I64], weights: Floats) -> I64:
    """Return the worst violated pair of each column."""
    short = _short(values, duals, sets, weights)
    worst = short.argmax(axis=1)
    bad = short.max(axis=1) > 1e-7 * float(np.abs(duals).max())
    return np.sort(np.stack([np.nonzero(bad)[0], worst[bad]], axis=1), axis=1)


def _odd_parts(count: int, pairs: I64, x: Floats) -> list[I64]:
    """Return the odd components of the pairs that are used in part."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    some = pairs[(x > _FRACTION) & (x < 1 - _FRACTION)]
    graph = csr_matrix((np.ones(len(some)), (some[:, 0], some[:, 1])), shape=(count, count))
    number, label = connected_components(graph, directed=False)
    sizes = np.bincount(label, minlength=number)
    return [np.nonzero(label == part)[0] for part in np.nonzero((sizes > 2) & (sizes % 2))[0]]
