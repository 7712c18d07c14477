"""Upper limits that no legal order can exceed.

``exact``: nothing is free, the limit is the value itself. ``row``: each row keeps its best share
wherever it stands; cheap, always at hand, usually far from reachable. ``pair``: the pairwise
majorant of `permsearch._pair_bound`, never above ``row`` and seldom close to reachable either.
``partition`` (`permsearch.certificates.partition`): set partitioning priced over all groups, for
N:M usually within 0.1 % of the optimum. ``matching``: the optimum of 1:2. The last two come with a
certificate that can be saved and checked again. Patterns that keep or drop vectors and blocks have
limits of their own (`permsearch.limits`): ``spectral`` from singular values, ``partition`` from a
list of all groups of few rows. Every limit is rounded up, so that a score summed in another order
in float64 cannot exceed it, and says by how much (`Bound.slack`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from permsearch.errors import unknown
from permsearch.layout import taps_as_rows
from permsearch.limits.rounding import ROUNDING, up
from permsearch.limits.rows import row_bound
from permsearch.limits.terms import ceiling, term_limit
from permsearch.limits.value import Bound
from permsearch.problem import Problem, Term, check_problem
from permsearch.result import SearchResult
from permsearch.stack import Piece, obstacle, pieces
from permsearch.stop import Horizon, Progress, StoppingCriterion, check_criterion

__all__ = ["METHODS", "ROUNDING", "Bound", "bound", "cheap", "row_bound", "unconstrained"]

# Relative error of narrowing a float64 score to the float32 of a stack, with room to spare.
_NARROWING = 2.0**-23
_TINY = float(np.finfo(np.float32).smallest_normal)
METHODS = ("auto", "matching", "pair", "partition", "row", "spectral")


def unconstrained(problem: Problem) -> float:
    """Return what the patterns would retain without the group constraint.

    For N:M every row keeps its largest N/M, wherever they stand: a result's `ceiling`, the
    100 % of `efficacy`.
    """
    return sum(ceiling(term) for term in problem.terms)


def bound(
    problem: Problem,
    method: str = "auto",
    *,
    stop: StoppingCriterion | None = None,
    start: Mapping[str, ArrayLike] | None = None,
) -> Bound:
    """Return a limit that no legal solution of a problem exceeds.

    Parameters
    ----------
    problem
        Variables and terms; variables and terms that do not depend on each other are bounded
        one by one and added up.
    method
        ``row``: what comes with every search; ``pair``: the smaller of the per-row and the
        pairwise limit, the latter where it applies (2 <= M <= 8, at most 4096 columns);
        ``partition``: set partitioning, where all groups can be priced or listed; ``matching``:
        the optimum of 1:2; ``spectral``: from singular values, for patterns of vectors and blocks;
        ``auto``: of these the tightest that is expected to fit into the time left, a minute for
        a piece or a term without a criterion.
    stop
        Asked before each independent piece and after every round of its limit (a step: a round of
        the pairwise limit, or a pricing of all groups); the clock runs over all pieces, and
        pieces it does not reach keep their per-row limit.
    start
        Good orders, such as those of a search: a tight limit is found sooner around them. Without
        them a short annealing finds some.

    Raises
    ------
    UnsupportedProblem
        When the method is named but cannot bound a piece: the message says why.

    Examples
    --------
    >>> import permsearch as ps
    >>> limit = bound(ps.single([[3.0, 2.0, 1.0, 0.0]], "1:2"))
    >>> round(limit.value, 6), limit.kind, limit.proves(5.0)
    (5.0, 'row', True)
    """
    check_problem(
        problem, "bound", "bound(single(weight, '2:4')), or the bound of a search's result"
    )
    if stop is not None:
        check_criterion(stop)
    if method not in METHODS:
        raise unknown("bound method", method, METHODS)
    from permsearch.certificates.planning import Plan

    plan = Plan(problem, method, None if stop is None else _Shared(stop), start)
    covered = list(pieces(problem, stackable(problem)))
    proofs = tuple(plan.proof(piece) for piece in covered)
    parts = [Bound(proof.value, proof.kind, slack=proof.slack) for proof in proofs]
    return plan.certified(Bound.total([*parts, *rest_of(problem, covered, plan.limit)]), proofs)


def tightened(result: SearchResult, limit: Bound | None = None) -> SearchResult:
    """Return a result with the smaller of its bound and `limit`; None: what `bound` finds."""
    if limit is None:
        start = result.solution if result.score > result.baseline else None
        limit = bound(result.problem, start=start)
    if limit.value >= result.bound:
        return result
    value = max(limit.value, result.score)
    return replace(result, bound=value, bound_kind=limit.kind, bound_slack=limit.slack)


def cheap(problem: Problem) -> Bound:
    """Return the limit that costs no more than looking at every score once."""
    return bound(problem, "row")


def by_pieces(problem: Problem, known: Sequence[tuple[Piece, float, str]]) -> Bound:
    """Return the cheap bound, lowered by the limits and kinds that are known of some stacks.

    The limits are in the stacks' units.
    """
    if not known:
        return cheap(problem)
    covered = list(pieces(problem, stackable(problem)))
    limits = {(piece.variable, piece.first): (limit, kind) for piece, limit, kind in known}
    parts = []
    for piece in covered:
        part = row_limit(problem, piece)
        if (piece.variable, piece.first) in limits:
            limit, kind = limits[piece.variable, piece.first]
            better = widened(problem, piece, limit, kind)
            part = better if better.value < part.value else part
        parts.append(part)
    return Bound.total([*parts, *rest_of(problem, covered)])


def stackable(problem: Problem) -> tuple[str, ...]:
    """Return the variables whose terms fall apart into stacks of columns."""
    return tuple(name for name in problem.sensitive if obstacle(problem, name) is None)


class _Shared:
    """A criterion whose clock started once for all pieces."""

    def __init__(self, stop: StoppingCriterion) -> None:
        self._stop = stop
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def horizon(self) -> Horizon:
        return self._stop.horizon

    def __call__(self, progress: Progress, /) -> bool:
        elapsed, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return self._stop(replace(progress, elapsed=elapsed, cpu=cpu))


def row_limit(problem: Problem, piece: Piece) -> Bound:
    """Return the per-row limit of one stack."""
    last = piece.first + len(piece.stack.columns)
    total = sum(
        row_bound(taps_as_rows(term.scores[:, piece.first : last]), piece.stack.n, piece.stack.m)
        for term in problem.terms_on(piece.variable)
    )
    return Bound.rounded(total, "row")


def widened(problem: Problem, piece: Piece, limit: float, kind: str, slack: float = 0.0) -> Bound:
    """Return the limit of a stack in the problem's units.

    A stack is float32; what narrowing took from a float64 score is given back.
    """
    exact = piece.stack.scale * (limit - slack)
    if any(term.scores.dtype != np.float32 for term in problem.terms_on(piece.variable)):
        limit = limit * (1 + _NARROWING) + piece.stack.columns.size * _TINY
    value = up(piece.stack.scale * limit)
    return Bound(value, kind, slack=value - exact)


def rest_of(
    problem: Problem,
    covered: Iterable[Piece],
    limit_of: Callable[[Problem, Term], Bound] = term_limit,
) -> Iterator[Bound]:
    """Yield limits of all that those stacks leave out: other terms, and groups that stay put."""
    names = stackable(problem)
    for term in problem.terms:
        if not term.sensitive & set(names):
            yield limit_of(problem, term)
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for piece in covered:
        spans[piece.variable].append((piece.first, len(piece.stack.columns)))
    for name in names:
        yield from _rest(problem, name, spans[name])


def _rest(problem: Problem, name: str, covered: list[tuple[int, int]]) -> Iterator[Bound]:
    """Yield the value of the groups that no stack covers: no order changes them."""
    for term in problem.terms_on(name):
        left = np.ones(term.scores.shape[1], dtype=np.bool_)
        for first, length in covered:
            left[first : first + length] = False
        if left.any():
            yield Bound.rounded(term.pattern.retained(term.scores[:, left]), "exact")
