"""From a problem to what column solvers work on: independent stacks of columns.

N:M terms look at nothing but which columns share a group. All terms on one variable are
therefore laid on top of each other, once, as one tall matrix; a variable with segments falls
apart into one stack per segment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permsearch.domains import Domain
from permsearch.layout import taps_as_rows
from permsearch.orders import Order
from permsearch.patterns import NM
from permsearch.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """One independent piece of an N:M problem, column by column.

    Attributes
    ----------
    columns
        float32, shape (C, R), C-contiguous: one array row per column of the weights, all terms
        stacked along R, scaled by a power of two so that the largest entry lies in [0.5, 1)
        (zero stays zero). Scaling the scores by a power of two therefore changes no search.
    n, m
        Kept and group size; m divides C, n < m, and there are at least two groups.
    scale
        Value in the problem's units of a 1.0 in `columns`.
    """

    columns: NDArray[np.float32]
    n: int
    m: int
    scale: float

    def total(self, order: NDArray[np.intp]) -> float:
        """Return the retained score of an order in the problem's units, summed in float64."""
        from permsearch.kernels.value import retained

        return self.scale * float(retained(self.columns, order, self.n, self.m))


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A stack and where its columns stand: positions `first` onwards of a variable."""

    variable: str
    first: int
    stack: Stack

    def local(self, order: Order) -> NDArray[np.int64]:
        """Return the piece's part of a variable's order, numbered from zero."""
        part = order[self.first : self.first + len(self.stack.columns)] - self.first
        return np.array(part, dtype=np.int64)

    def place(self, order: Order, local: NDArray[np.int64]) -> Order:
        """Return a copy of a variable's order with the piece's part replaced."""
        placed = order.copy()
        placed[self.first : self.first + local.size] = local + self.first
        return placed


def _matters(domain: Domain, pattern: NM) -> bool:
    """Decide whether orders of a domain can change which columns share a group."""
    if domain.width % pattern.m == 0:
        return False
    first = 0
    for length in domain.segments:
        if first // pattern.m != (first + length - 1) // pattern.m:
            return True
        first += length
    return False


def group_sizes(problem: Problem) -> set[int]:
    """Return the M of every N:M term that some order matters to."""
    terms = (term for variable in problem.sensitive for term in problem.terms_on(variable))
    return {term.pattern.m for term in terms if isinstance(term.pattern, NM)}


def obstacle(problem: Problem, variable: str) -> str | None:
    """Say why a variable cannot be stacked, or None when it can (or when nothing matters)."""
    patterns: dict[NM, None] = {}
    for term in problem.terms_on(variable):
        if not isinstance(term.pattern, NM):
            return f"the pattern {term.pattern} on variable {variable!r} is not N:M"
        if term.rows == variable and term.cols == variable:
            return f"variable {variable!r} orders rows and columns of one weight at once"
        patterns[term.pattern] = None
    if len(patterns) > 1:
        kinds = ", ".join(map(str, patterns))
        return f"variable {variable!r} carries different patterns ({kinds})"
    pattern = next(iter(patterns))
    domain = problem.domains[variable]
    if not _matters(domain, pattern):
        return None
    if domain.width > 1:
        return f"variable {variable!r} moves units of {domain.width} columns"
    if any(length % pattern.m for length in domain.segments):
        return f"segments of variable {variable!r} do not split into groups of {pattern.m}"
    return None


def _stack(problem: Problem, variable: str, first: int, length: int) -> Stack:
    terms = list(problem.terms_on(variable))
    pattern = terms[0].pattern
    assert isinstance(pattern, NM)
    parts = [taps_as_rows(term.scores[:, first : first + length]) for term in terms]
    peak = max(float(part.max()) for part in parts)
    exponent = int(np.frexp(peak)[1])
    rows = sum(len(part) for part in parts)
    columns = np.empty((length, rows), dtype=np.float32)
    row = 0
    for part in parts:
        # float64 scores far outside float32's range must be scaled before they are narrowed
        columns[:, row : row + len(part)] = np.ldexp(part, -exponent).T
        row += len(part)
    return Stack(columns, pattern.n, pattern.m, float(np.ldexp(1.0, exponent)))


def pieces(problem: Problem, variables: Collection[str] | None = None) -> Iterator[Piece]:
    """Yield the independent stacks of those variables (all, when None); none has an `obstacle`.

    Segments of a single group are left out: no order of them changes anything.
    """
    for variable in problem.sensitive:
        if variables is not None and variable not in variables:
            continue
        domain = problem.domains[variable]
        pattern = next(problem.terms_on(variable)).pattern
        assert isinstance(pattern, NM)
        if not _matters(domain, pattern):
            continue
        first = 0
        for length in domain.segments:
            if length > pattern.m:
                yield Piece(variable, first, _stack(problem, variable, first, length))
            first += length
