"""Proofs for the pieces of a problem, as good as the time allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.bounds import stackable, widened
from permsearch.certificates.certificate import Proof
from permsearch.certificates.matching import MOST_COLUMNS, matching_limit, pair_proof
from permsearch.certificates.partition import Limit, limits, obstacle
from permsearch.certificates.pricing import work
from permsearch.domains import Free
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.stack import Piece, Stack, pieces
from permsearch.stop import MaxSteps, Progress, StoppingCriterion

_ANNEALED = 400  # steps for an order to begin with where none is given
_RATE = 4e10  # elements priced a second, cautiously
_PER_COLUMN = 0.006  # seconds of fitting duals
_MATCHED = 1e-6  # seconds of matching for each pair of columns and one row of 256
_ROWS = 256.0


def expected_seconds(stack: Stack) -> float:
    """Return about how long the first tight limit of a stack takes; infinite where none is."""
    count, rows = stack.columns.shape
    if stack.m == 2:
        if count > MOST_COLUMNS:
            return float("inf")
        return float(count**2 * (1 + rows / _ROWS) * _MATCHED * 4)
    if obstacle(stack) is not None:
        return float("inf")
    return float(work(count, rows, stack.m) / _RATE + _PER_COLUMN * count)


def tight_seconds(problem: Problem) -> float:
    """Return about how long the first tight limits of all pieces take; infinite where none are."""
    return sum(expected_seconds(piece.stack) for piece in pieces(problem, stackable(problem)))


def good_order(stack: Stack) -> NDArray[np.int64]:
    """Return an order from a short annealing."""
    from permsearch.solvers.registry import get_solver

    term = Term(stack.columns.T, NM(stack.n, stack.m), cols="cols")
    problem = Problem({"cols": Free(len(stack.columns))}, (term,))
    solver = get_solver("matching" if stack.m == 2 else "anneal")
    found = solver.solve(problem, stop=MaxSteps(_ANNEALED))
    return found.solution["cols"].astype(np.int64)


def partition_proof(
    problem: Problem, piece: Piece, order: NDArray[np.int64], stop: StoppingCriterion | None
) -> Proof | None:
    """Return the best set-partitioning proof of a piece that the criterion allows, None if none."""
    found: list[Limit] = []

    def halted() -> bool:
        return stop is not None and stop(Progress(len(found), 0.0, 0.0, 0.0, 0))

    for limit in limits(piece.stack, order, halted):
        found.append(limit)  # one by one: `halted` counts them
    return proof_of(problem, piece, found[-1]) if found else None


def proof_of(problem: Problem, piece: Piece, limit: Limit) -> Proof:
    """Return a limit as a proof."""
    bound = widened(problem, piece, limit.value, "partition", limit.slack)
    return Proof(
        piece.variable,
        piece.first,
        bound.kind,
        bound.value,
        limit.level,
        limit.duals,
        limit.found.groups,
        limit.found.reduced(limit.duals) - limit.level,
        slack=bound.slack,
    )


def matching_proof(problem: Problem, piece: Piece, order: NDArray[np.int64]) -> Proof:
    """Return the proof of a piece of a 1:2 problem."""
    duals, sets, weights = pair_proof(piece.stack, order)
    bound = widened(problem, piece, *matching_limit(piece.stack, duals, sets, weights))
    return Proof(
        piece.variable,
        piece.first,
        bound.kind,
        bound.value,
        slack=bound.slack,
        duals=duals,
        sets=np.concatenate([np.empty(0, np.int64), *sets]),
        lengths=np.array([len(odd) for odd in sets], dtype=np.int64),
        weights=np.asarray(weights, dtype=np.float64),
    )
