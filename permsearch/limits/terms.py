"""The limit of one term by itself: what no order of its free axes exceeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permsearch.domains import Domain
from permsearch.layout import taps_as_rows
from permsearch.limits.effort import CHEAP, Effort
from permsearch.limits.rounding import ROUNDING, up
from permsearch.limits.rows import row_bound, top_entries
from permsearch.limits.value import Bound
from permsearch.patterns import NM, Axis, Limited, Private
from permsearch.problem import Problem, Term


def ceiling(term: Term) -> float:
    """Return what a mask of the pattern's freedom retains that no order limits.

    For N:M every row keeps its largest N/M, else the matrix its largest entries.
    """
    if isinstance(term.pattern, NM):
        return row_bound(taps_as_rows(term.scores), term.pattern.n, term.pattern.m)
    dropped = int(np.floor((1 - term.pattern.density) * term.scores.size))
    return top_entries(term.scores, term.scores.size - dropped)


def term_limit(problem: Problem, term: Term, effort: Effort = CHEAP) -> Bound:
    """Return the least limit of a term that an effort finds."""
    free = free_axes(problem, term)
    if not free and not isinstance(term.pattern, Private):
        return Bound.rounded(term.retained({}), "exact")
    if isinstance(term.pattern, NM):
        return _by_runs(problem, term, term.pattern)
    best = Bound.rounded(ceiling(term), "unstructured")
    for limit in pattern_limits(term, free, effort):
        best = limit if limit.value < best.value else best
    return best


def pattern_limits(term: Term, free: frozenset[Axis], effort: Effort) -> Iterator[Bound]:
    """Yield what the pattern itself knows to limit a term."""
    if isinstance(term.pattern, Limited):
        for value, kind in term.pattern.limits(term.scores, free, effort):
            # rounded up there already; once more does no harm
            yield Bound(up(value), kind, slack=4 * ROUNDING * value)


def free_axes(problem: Problem, term: Term) -> frozenset[Axis]:
    """Return the axes of a term whose legal orders may change its value."""
    free: set[Axis] = set()
    for axis in term.pattern.axes:
        name = term.variable(axis)
        if name in problem.sensitive and not (
            isinstance(term.pattern, NM) and problem.domains[name].width % term.pattern.m == 0
        ):
            free.add(axis)
    return frozenset(free)


def _by_runs(problem: Problem, term: Term, pattern: NM) -> Bound:
    """Return the per-row limit of a term, each run that no column leaves by itself."""
    assert term.cols is not None
    rows = taps_as_rows(term.scores)
    total, first, exact = 0.0, 0, True
    for length in _group_runs(problem.domains[term.cols], pattern.m):
        total += row_bound(rows[:, first : first + length], pattern.n, pattern.m)
        first += length
        exact = exact and length == pattern.m
    return Bound.rounded(total, "exact" if exact else "row")


def _group_runs(domain: Domain, m: int) -> Iterator[int]:
    """Yield lengths of consecutive runs that columns and whole groups of `m` never leave."""
    length = 0
    for segment in domain.segments:
        length += segment
        if length % m == 0:
            yield length
            length = 0
