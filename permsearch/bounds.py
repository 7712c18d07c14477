"""Upper limits that no legal order can exceed.

Three kinds are known so far. ``exact``: nothing is free, the limit is the value itself. ``row``:
each row keeps its best share wherever it stands; cheap, always at hand, usually far from
reachable. ``pair``: the pairwise majorant of `permsearch._pair_bound`, never above ``row``.
Every limit is rounded up, so that a score summed in another order in float64 cannot exceed it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from permsearch._pair_bound import pair_limit
from permsearch.domains import Domain
from permsearch.errors import ProblemError, unknown
from permsearch.layout import taps_as_rows
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.stack import Piece, obstacle, pieces
from permsearch.stop import Horizon, Progress, StoppingCriterion

FloatArray: TypeAlias = NDArray[np.floating[Any]]

# Relative head-room of every limit. Sums of non-negative float64 numbers are off by far less.
ROUNDING = 2.0**-40
# Relative error of narrowing a float64 score to the float32 of a stack, with room to spare.
_NARROWING = 2.0**-23
_TINY = float(np.finfo(np.float32).smallest_normal)
_BLOCK = 1 << 22  # entries partitioned at a time
_METHODS = ("auto", "pair", "row")


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven upper limit of the retained score.

    Attributes
    ----------
    value
        No legal solution retains more, in the units of the scores.
    kind
        ``exact``, ``row``, ``pair``, ``unstructured``, or ``mixed`` for a sum of several kinds.
    certificate
        What a stranger needs to check the value again; None for kinds that are recomputed at once.
    """

    value: float
    kind: str
    certificate: object | None = None

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
    problem: Problem, method: str = "auto", *, stop: StoppingCriterion | None = None
) -> Bound:
    """Return a limit that no legal solution of a problem exceeds.

    Parameters
    ----------
    problem
        Variables and terms; variables and terms that do not depend on each other are bounded
        one by one and added up.
    method
        ``row``, or ``pair`` (also ``auto``): the smaller of the per-row and the pairwise limit,
        the latter where it applies (2 <= M <= 8, at most 4096 columns).
    stop
        Asked before each independent piece and after every round (a step) of its pairwise limit;
        the clock runs over all pieces, and pieces it does not reach keep their per-row limit.
        Default: a few rounds, seconds at most for a 1024 x 1024 matrix.

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
    if method not in _METHODS:
        raise unknown("bound method", method, _METHODS)
    stacked = _stackable(problem) if method != "row" else ()
    parts = [
        _term_bound(problem, term) for term in problem.terms if not term.sensitive & set(stacked)
    ]
    if stacked:
        parts += _piece_bounds(problem, stacked, None if stop is None else _Shared(stop))
    return _sum(parts)


def cheap(problem: Problem) -> Bound:
    """Return the limit that costs no more than looking at every score once."""
    return bound(problem, "row")


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


def _stackable(problem: Problem) -> tuple[str, ...]:
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


def _piece_bound(problem: Problem, piece: Piece, stop: StoppingCriterion | None) -> Bound:
    """Return the smaller of the per-row and the pairwise limit of one stack."""
    stack, terms = piece.stack, list(problem.terms_on(piece.variable))
    last = piece.first + len(stack.columns)
    row = _up(
        sum(
            row_bound(taps_as_rows(term.scores[:, piece.first : last]), stack.n, stack.m)
            for term in terms
        )
    )
    late = stop is not None and stop(Progress(0, 0.0, 0.0, 0.0, 0))
    pair = None if late else pair_limit(stack.columns, stack.n, stack.m, stop=stop)
    if pair is None:
        return Bound(row, "row")
    if any(term.scores.dtype != np.float32 for term in terms):
        # a stack is float32; what narrowing took from a float64 score is given back
        pair = pair * (1 + _NARROWING) + stack.columns.size * _TINY
    pair = _up(stack.scale * pair)
    return Bound(pair, "pair") if pair < row else Bound(row, "row")


def _piece_bounds(
    problem: Problem, names: tuple[str, ...], stop: StoppingCriterion | None
) -> Iterator[Bound]:
    """Yield limits of all stacks of the named variables and of what those stacks leave out."""
    covered: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for piece in pieces(problem):
        if piece.variable not in covered:
            continue
        yield _piece_bound(problem, piece, stop)
        covered[piece.variable].append((piece.first, len(piece.stack.columns)))
    for name in names:
        yield from _rest(problem, name, covered[name])


def _rest(problem: Problem, name: str, covered: list[tuple[int, int]]) -> Iterator[Bound]:
    """Yield the value of the groups that no stack covers: no order changes them."""
    for term in problem.terms_on(name):
        left = np.ones(term.scores.shape[1], dtype=np.bool_)
        for first, length in covered:
            left[first : first + length] = False
        if left.any():
            yield Bound(_up(term.pattern.retained(term.scores[:, left])), "exact")
