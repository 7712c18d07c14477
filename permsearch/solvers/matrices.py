"""Parts that are single weights: how solvers of patterns on rows and columns meet the loop.

An order of such a part is one array: the order of the rows, then that of the columns plus the
number of rows. `MatrixPart.split` takes it apart, `join` puts it together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.domains import Domain, Free
from permsearch.errors import PatternError, UnsupportedProblem
from permsearch.orders import Order, identity
from permsearch.patterns import NM, Axis, Pattern, Tiled, TileWise
from permsearch.problem import Problem, Solution, Term
from permsearch.result import SearchResult
from permsearch.solvers.loop import Method, Part, Proven, solve_parts
from permsearch.solvers.run import Budget, Run, Step
from permsearch.stop import MaxSteps, StoppingCriterion

_AXES: tuple[Axis, Axis] = ("rows", "cols")


@dataclass(frozen=True, slots=True, eq=False)
class MatrixPart:
    """One weight whose rows, columns or both are free and belong to it alone.

    Attributes
    ----------
    index, term
        The term and its position in the problem.
    free
        The axes that may be reordered.
    scores
        float32, the term's scores in the shape of the weight (out, in, *k), scaled by a power of
        two so that the largest entry lies in [0.5, 1) (zero stays zero). Scaling the scores by a
        power of two therefore changes no search. Read-only.
    scale
        Value in the problem's units of a 1.0 in `scores`.
    """

    index: int
    term: Term
    free: frozenset[Axis]
    scores: NDArray[np.float32]
    scale: float

    @classmethod
    def of(cls, problem: Problem, index: int) -> MatrixPart:
        """Return the part of a term."""
        term = problem.terms[index]
        exponent = int(np.frexp(float(term.scores.max()))[1])
        # float64 scores far outside float32's range must be scaled before they are narrowed
        scores = np.ldexp(term.scores, -exponent).astype(np.float32)
        scores.setflags(write=False)
        free = frozenset(axis for axis in _AXES if term.variable(axis) in problem.sensitive)
        return cls(index, term, free, scores, float(np.ldexp(1.0, exponent)))

    @property
    def pattern(self) -> Pattern:
        """The term's pattern."""
        return self.term.pattern

    @property
    def effort(self) -> float:
        """The number of entries."""
        return float(self.scores.size)

    def split(self, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the orders of rows and columns that an order of the part consists of."""
        rows = self.scores.shape[0]
        return order[:rows], order[rows:] - rows

    def join(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of the part that consists of orders of rows and columns."""
        return np.concatenate([rows, cols + len(rows)])

    def begin(self, solution: Solution) -> NDArray[np.int64]:
        """Return the part's order under a solution."""
        rows, cols = (
            identity(size) if name is None else solution[name]
            for name, size in zip(self._variables, self.scores.shape[:2], strict=True)
        )
        return self.join(rows.astype(np.int64), cols.astype(np.int64))

    def value(self, order: NDArray[np.int64], tiles: NDArray[np.int64] | None = None) -> float:
        """Return the retained score of an order in the problem's units, in float64."""
        solution: dict[str, Order] = {}
        self.place(solution, order)
        return self.term.retained(solution, tiles)

    def place(self, solution: dict[str, Order], order: NDArray[np.int64]) -> None:
        """Put the orders of the axes that are named into a solution."""
        for name, part in zip(self._variables, self.split(order), strict=True):
            if name is not None:
                solution[name] = np.array(part)

    def report(self, run: Run, proof: Proven, tiles: NDArray[np.int64] | None) -> None:
        """Give the run the tiles' own orders."""
        del proof
        if tiles is not None:
            run.tiles[self.index] = tiles

    @property
    def _variables(self) -> tuple[str | None, str | None]:
        return self.term.rows, self.term.cols


class MatrixSolver(ABC):
    """A solver for patterns that act on the rows and columns of one weight; abstract.

    A subclass is a frozen dataclass with a method ``_run(part, order, rng, budget)`` that yields a
    `Step` after each bounded sweep, as column solvers do.
    """

    __slots__ = ()

    #: kinds of patterns that it searches for
    patterns: ClassVar[tuple[type, ...]] = ()
    #: whether the solver plans a schedule over all the steps or time it is given
    scheduled: ClassVar[bool] = False
    #: steps on a tiny weight that reach every kernel of a real run
    warm_steps: ClassVar[int] = 8

    @property
    def default_stop(self) -> StoppingCriterion:
        """What ends a run to which no criterion was given."""
        return MaxSteps(1000)

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""
        for index in problem.searched:
            term = problem.terms[index]
            reason = matrix_obstacle(problem, term) or self.refuses(problem, term)
            if reason is not None:
                return f"{reason}; {ways_out(term.pattern)}"
        return None

    def refuses(self, problem: Problem, term: Term) -> str | None:
        """Say why a term cannot be searched although its variables are its own, or None."""
        del problem
        if isinstance(term.pattern, self.patterns):
            return None
        return (
            f"{term.name or 'the weight'} has the pattern {term.pattern}, it takes {self.forms()}"
        )

    def forms(self) -> str:
        """Return how the patterns that it searches for are written."""
        return " and ".join(getattr(kind, "form", kind.__name__) for kind in self.patterns)

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""
        reason = self.supports(problem)
        if reason is not None:
            raise UnsupportedProblem(f"{self} cannot search this problem: {reason}")
        stop = self.default_stop if stop is None else stop
        return solve_matrices(self, problem, stop=stop, start=start, seed=seed)

    @abstractmethod
    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        """Yield a step after each bounded sweep, starting from `order` (private to the run)."""


def ways_out(pattern: Pattern) -> str:
    """Return what searches for a pattern, as the end of a sentence on a solver that does not."""
    if isinstance(pattern, NM):
        return "use 'auto', or for N:M 'swap', 'window', 'matching', 'assignment' or 'anneal'."
    return "use solver 'auto' or 'local'."


def matrix_obstacle(problem: Problem, term: Term) -> str | None:
    """Say why a term is no part of its own whose axes are free, or None when it is one."""
    what = term.name or "the weight"
    if term.rows is not None and term.rows == term.cols:
        return f"variable {term.rows!r} orders rows and columns of {what} at once"
    for name in sorted(term.sensitive & set(problem.sensitive)):
        if sum(1 for _ in problem.terms_on(name)) > 1:
            return f"variable {name!r} of {what} orders other weights, too"
        domain = problem.domains[name]
        if domain.width > 1 or len(domain.segments) > 1:
            return f"variable {name!r} of {what} is not free: {domain}"
    return None


def tiny_problem(problem: Problem, term: Term) -> Problem:
    """Return a small random weight of the same pattern and rank with the same axes free."""
    pattern, whole = term.pattern, term.scores.shape
    rows, cols = pattern.tiling if isinstance(pattern, Tiled) else (1, 1)
    if isinstance(pattern, TileWise):  # its tiles need not fill the weight, but two there must be
        rows = pattern.g
    shape = (
        min(whole[0], max(2 * rows, 8 // rows * rows)),
        min(whole[1], max(2 * cols, 16 // cols * cols)),
        *whole[2:],
    )
    while shape != whole and not _carries(pattern, shape):  # a small share needs a large weight
        shape = tuple(min(2 * a, b) for a, b in zip(shape, whole, strict=True))
    scores = np.random.default_rng(0).random(shape, np.float32)
    names = {axis: axis for axis in _AXES if term.variable(axis) in problem.sensitive}
    domains: dict[str, Domain] = {
        axis: Free(size) for axis, size in zip(_AXES, shape, strict=False) if axis in names
    }
    own = Term(scores, pattern, names.get("rows"), names.get("cols"))
    return Problem(domains, (own,))


def _carries(pattern: Pattern, shape: tuple[int, ...]) -> bool:
    """Decide whether arrays of a shape can carry a pattern."""
    try:
        pattern.check(shape)
    except PatternError:
        return False
    return True


def solve_matrices(
    solver: MatrixSolver,
    problem: Problem,
    *,
    stop: StoppingCriterion,
    start: Mapping[str, ArrayLike] | None,
    seed: int,
    terms: Collection[int] | None = None,
) -> SearchResult:
    """Run a solver on every weight of a problem and return the result.

    `terms` restricts the search to the terms at some positions.
    """
    method = Method(solver, partial(_steps, solver), solver.scheduled)
    find = partial(_parts, terms=terms)
    return solve_parts(method, problem, find, stop=stop, start=start, seed=seed)


def _parts(problem: Problem, terms: Collection[int] | None) -> Iterator[Part]:
    for index in problem.searched:
        if terms is None or index in terms:
            yield MatrixPart.of(problem, index)


def _steps(
    solver: MatrixSolver,
    part: Part,
    order: NDArray[np.int64],
    rng: np.random.Generator,
    budget: Budget,
) -> Iterator[Step]:
    assert isinstance(part, MatrixPart)
    return solver._run(part, order, rng, budget)  # noqa: SLF001
