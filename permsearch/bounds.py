"""Upper limits that no legal order can exceed.

``exact``: nothing is free, the limit is the value itself. ``row``: each row keeps its best share
wherever it stands; cheap, always at hand, usually far from reachable. ``pair``: the pairwise
majorant of `permsearch._pair_bound`, never above ``row`` and seldom close to reachable either.
``partition`` (`permsearch.certificates.partition`): set partitioning priced over all groups, for
N:M usually within 0.1 % of the optimum. ``matching``: the optimum of 1:2. The last two come with a
certificate that can be saved and checked again. Every limit is rounded up, so that a score summed
in another order in float64 cannot exceed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.domains import Domain
from permsearch.errors import ProblemError, unknown
from permsearch.layout import taps_as_rows
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.result import TIGHT
from permsearch.stack import Piece, obstacle, pieces
from permsearch.stop import Horizon, Progress, StoppingCriterion, check_criterion

if TYPE_CHECKING:
    from permsearch.certificates.certificate import Certificate

FloatArray: TypeAlias = NDArray[np.floating[Any]]

# Relative head-room of every limit. Sums of non-negative float64 numbers are off by far less.
ROUNDING = 2.0**-40
# Relative error of narrowing a float64 score to the float32 of a stack, with room to spare.
_NARROWING = 2.0**-23
_TINY = float(np.finfo(np.float32).smallest_normal)
_BLOCK = 1 << 22  # entries partitioned at a time
_METHODS = ("auto", "matching", "pair", "partition", "row")


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven upper limit of the retained score.

    Attributes
    ----------
    value
        No legal solution retains more, in the units of the scores.
    kind
        ``exact``, ``row``, ``pair``, ``partition``, ``matching``, ``unstructured``, or ``mixed``
        for a sum of several kinds.
    certificate
        A `permsearch.certificates.Certificate`: what a stranger needs to check the value again.
        None where a piece has a kind that is recomputed instead, such as ``pair``.
    """

    value: float
    kind: str
    certificate: Certificate | None = None

    @property
    def tight(self) -> bool:
        """Whether limits of this kind usually lie close to what can be reached."""
        return self.kind in TIGHT

    def proves(self, score: float) -> bool:
        """Decide whether a retained score is as large as the limit, up to rounding."""
        return score >= self.value * (1 - 4 * ROUNDING)


def row_bound(rows: FloatArray, n: int, m: int) -> float:
    """Return the sum over rows of the largest `n` / `m` of the entries, in float64, not rounded.

    No order of the columns keeps more. For a single group this is the value itself.

    Parameters
    ----------
    rows
        Scores, shape (R, C), >= 0, C a multiple of `m`.
    n, m
        Kept and group size.
    """
    count, width = rows.shape
    drop = width // m * (m - n)
    if drop == 0:
        return float(rows.sum(dtype=np.float64))
    total = 0.0
    step = max(1, _BLOCK // width)
    for start in range(0, count, step):
        top = np.partition(rows[start : start + step], drop, axis=1)[:, drop:]
        total += float(top.sum(dtype=np.float64))
    return total


def unconstrained(problem: Problem) -> float:
    """Return what the patterns would retain without the permutation constraint.

    For N:M every row keeps its largest N/M, wherever they stand: the 100 % of `efficacy`.
    """
    return sum(_ceiling(term) for term in problem.terms)


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
        ``row``; ``pair``: the smaller of the per-row and the pairwise limit, the latter where it
        applies (2 <= M <= 8, at most 4096 columns); ``partition``: set partitioning, where all
        groups can be priced; ``matching``: the optimum of 1:2; ``auto``: of these the tightest
        that is expected to fit into the time left, 3 seconds a piece without a criterion.
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
    >>> import numpy as np
    >>> from permsearch.domains import Free
    >>> term = Term(np.array([[3.0, 2.0, 1.0, 0.0]]), NM(1, 2), cols="cols")
    >>> limit = bound(Problem({"cols": Free(4)}, (term,)))
    >>> round(limit.value, 6), limit.proves(5.0)
    (5.0, True)
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"bound takes a Problem, got a {type(problem).__name__}; for one weight use "
            "bound(single(weight, '2:4')), or the bound of a search's result."
        )
    if stop is not None:
        check_criterion(stop)
    if method not in _METHODS:
        raise unknown("bound method", method, _METHODS)
    stacked = stackable(problem)
    if not stacked:
        return _sum(rest_of(problem, ()))
    from permsearch.certificates.planning import Plan

    plan = Plan(problem, method, None if stop is None else _Shared(stop), start)
    covered = list(pieces(problem, stacked))
    proofs = tuple(plan.proof(piece) for piece in covered)
    parts = [Bound(proof.value, proof.kind) for proof in proofs]
    return plan.certified(_sum([*parts, *rest_of(problem, covered)]), proofs)


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
        part = Bound(row_limit(problem, piece), "row")
        if (piece.variable, piece.first) in limits:
            limit, kind = limits[piece.variable, piece.first]
            better = Bound(widened(problem, piece, limit), kind)
            part = better if better.value < part.value else part
        parts.append(part)
    return _sum([*parts, *rest_of(problem, covered)])


def _up(value: float) -> float:
    return value * (1 + ROUNDING)


def _sum(parts: Iterable[Bound]) -> Bound:
    parts = tuple(parts)
    kinds = {part.kind for part in parts if part.kind != "exact"}
    kind = "exact" if not kinds else "mixed" if len(kinds) > 1 else kinds.pop()
    return Bound(sum(part.value for part in parts), kind)


def _ceiling(term: Term) -> float:
    if isinstance(term.pattern, NM):
        return row_bound(taps_as_rows(term.scores), term.pattern.n, term.pattern.m)
    return _largest(term.scores, term.pattern.density)


def _largest(scores: FloatArray, share: float) -> float:
    """Return the sum of the largest entries, their number rounded up."""
    drop = int(np.floor((1 - share) * scores.size))
    if drop == 0:
        return float(scores.sum(dtype=np.float64))
    if drop == scores.size:
        return 0.0
    return float(np.partition(scores, drop, axis=None)[drop:].sum(dtype=np.float64))


def _group_runs(domain: Domain, m: int) -> Iterator[int]:
    """Yield lengths of consecutive runs that columns and whole groups of `m` never leave."""
    length = 0
    for segment in domain.segments:
        length += segment
        if length % m == 0:
            yield length
            length = 0


def _moves(problem: Problem, term: Term) -> bool:
    """Decide whether some legal order of a term's variables may change its value."""
    names = term.sensitive & set(problem.sensitive)
    if isinstance(term.pattern, NM):
        return any(problem.domains[name].width % term.pattern.m for name in names)
    return bool(names)


def _term_bound(problem: Problem, term: Term) -> Bound:
    if not _moves(problem, term):
        return Bound(_up(term.retained({})), "exact")
    pattern = term.pattern
    if not isinstance(pattern, NM):
        return Bound(_up(_largest(term.scores, pattern.density)), "unstructured")
    assert term.cols is not None
    rows = taps_as_rows(term.scores)
    total, first, exact = 0.0, 0, True
    for length in _group_runs(problem.domains[term.cols], pattern.m):
        total += row_bound(rows[:, first : first + length], pattern.n, pattern.m)
        first += length
        exact = exact and length == pattern.m
    return Bound(_up(total), "exact" if exact else "row")


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


def row_limit(problem: Problem, piece: Piece) -> float:
    """Return the per-row limit of one stack, rounded up."""
    last = piece.first + len(piece.stack.columns)
    return _up(
        sum(
            row_bound(
                taps_as_rows(term.scores[:, piece.first : last]), piece.stack.n, piece.stack.m
            )
            for term in problem.terms_on(piece.variable)
        )
    )


def widened(problem: Problem, piece: Piece, limit: float) -> float:
    """Return the limit of a stack in the problem's units, rounded up.

    A stack is float32; what narrowing took from a float64 score is given back.
    """
    if any(term.scores.dtype != np.float32 for term in problem.terms_on(piece.variable)):
        limit = limit * (1 + _NARROWING) + piece.stack.columns.size * _TINY
    return _up(piece.stack.scale * limit)


def rest_of(problem: Problem, covered: Iterable[Piece]) -> Iterator[Bound]:
    """Yield limits of all that those stacks leave out: other terms, and groups that stay put."""
    names = stackable(problem)
    for term in problem.terms:
        if not term.sensitive & set(names):
            yield _term_bound(problem, term)
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
            yield Bound(_up(term.pattern.retained(term.scores[:, left])), "exact")
