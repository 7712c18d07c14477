"""What every solver is, and what the solvers of N:M problems have in common.

A column solver is a frozen dataclass with a method ``_run(stack, order, rng, budget)`` that
yields a `Step` after each bounded sweep. Everything else (variables, segments, the start, the
budget's split over stacks, keeping the best, the trace, bounds, the float64 score) stands once,
in `permsearch.solvers.columns` and `permsearch.solvers.run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from numpy.typing import ArrayLike, NDArray

from permsearch.errors import UnsupportedProblem
from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solvers.columns import solve_columns
from permsearch.solvers.run import Budget, Step
from permsearch.stack import Stack, obstacle
from permsearch.stop import Never, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Budget", "ColumnSolver", "Solver", "Step", "column_obstacle", "require"]


@runtime_checkable
class Solver(Protocol):
    """Anything that improves the orders of a problem: a value that holds the method's options.

    `permsearch.testing.check_solver` tries one against what is promised here.
    """

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""


class ColumnSolver(ABC):
    """A solver that works on one stack of columns at a time; abstract."""

    __slots__ = ()

    #: whether the solver plans a schedule over all the steps or time it is given
    scheduled: ClassVar[bool] = False

    @property
    def default_stop(self) -> StoppingCriterion:
        """What ends a run to which no criterion was given; by default the solver itself."""
        return Never()

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""
        return column_obstacle(problem)

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""
        require(self, problem)
        stop = self.default_stop if stop is None else stop
        return solve_columns(self, problem, stop=stop, start=start, seed=seed)

    @abstractmethod
    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        """Yield a step after each bounded sweep, starting from `order` (private to the run)."""


def column_obstacle(problem: Problem) -> str | None:
    """Say why column solvers cannot take a problem, or None; the message names the way out."""
    for variable in problem.sensitive:
        reason = obstacle(problem, variable)
        if reason is not None:
            return f"{reason}; use solver 'auto' or 'local'."
    return None


def require(solver: Solver, problem: Problem) -> None:
    """Raise UnsupportedProblem with the solver's own reason."""
    reason = solver.supports(problem)
    if reason is not None:
        raise UnsupportedProblem(f"{solver} cannot search this problem: {reason}")
