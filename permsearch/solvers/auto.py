"""The portfolio: the method that shape, pattern and budget call for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from numpy.typing import ArrayLike, NDArray

from permsearch.problem import Problem
from permsearch.result import SearchResult, Status
from permsearch.solvers.anneal import Anneal
from permsearch.solvers.base import Budget, ColumnSolver, Step
from permsearch.solvers.columns import solve_columns
from permsearch.solvers.compose import Share, joined
from permsearch.solvers.exhaustive import MAX_COLUMNS, Exhaustive
from permsearch.solvers.local import Local
from permsearch.solvers.matching import Matching
from permsearch.stack import Stack, obstacle
from permsearch.stop import MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np

_MATCHED = 1024  # columns up to which 1:2 is solved to proven optimality at any budget
_LOCAL_STEPS = 20_000  # swaps tried on what no column solver takes


@dataclass(frozen=True, slots=True)
class Auto(ColumnSolver):
    """Search each part of a problem by the method that suits it.

    - up to 16 columns: `exhaustive`, proven;
    - 1:2 up to 1024 columns: `matching`, proven, whatever the budget;
    - everything else that is N:M: `anneal`, whose schedule fills the budget;
    - other patterns, units that straddle groups, ragged segments: `local`, after the rest and with
      as many steps, 20,000 at most.

    Steps are those of the method that is used; without a criterion it is `anneal`'s default.
    """

    scheduled: ClassVar[bool] = True

    @property
    def default_stop(self) -> StoppingCriterion:
        """Anneal's default."""
        return Anneal().default_stop

    def supports(self, problem: Problem) -> str | None:
        """Every problem is supported."""
        del problem
        return None

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""
        stop = self.default_stop if stop is None else stop
        odd = {name for name in problem.sensitive if obstacle(problem, name) is not None}
        if odd:
            return self._in_two_parts(problem, odd, stop, start, seed)
        return solve_columns(self, problem, stop=stop, start=start, seed=seed)

    def _in_two_parts(
        self,
        problem: Problem,
        odd: set[str],
        stop: StoppingCriterion,
        start: Mapping[str, ArrayLike] | None,
        seed: int,
    ) -> SearchResult:
        """Search what can be stacked in half the budget, then the odd variables by swaps."""
        plain = set(problem.sensitive) - odd
        if not plain:
            return replace(
                Local().solve(problem, stop=stop, start=start, seed=seed), solver=str(self)
            )
        first = solve_columns(
            self, problem, stop=Share(stop, 2), start=start, seed=seed, variables=plain
        )
        # the steps of the first part are all the second goes by, so that steps repeat the run
        rest = MaxSteps(min(first.steps, _LOCAL_STEPS))
        local = Local(variables=tuple(sorted(odd)))
        second = local.solve(problem, stop=rest, start=first.solution, seed=seed)
        status = first.status if first.status is Status.STOPPED else second.status
        return replace(joined(first, second, str(self)), status=status, steps=2 * first.steps)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        return method_for(len(stack.columns), stack.m)._run(stack, order, rng, budget)  # noqa: SLF001


def method_for(columns: int, m: int) -> ColumnSolver:
    """Return the method for a stack of so many columns in groups of `m`."""
    if columns <= MAX_COLUMNS:
        return Exhaustive()
    if m == 2 and columns <= _MATCHED:
        return Matching()
    return Anneal()
