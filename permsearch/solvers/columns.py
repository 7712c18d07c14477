"""Parts that are stacks of columns: how N:M solvers meet the loop."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike, NDArray

from permsearch.orders import Order
from permsearch.problem import Problem, Solution
from permsearch.result import SearchResult
from permsearch.solvers.loop import Method, Part, Proven, solve_parts
from permsearch.solvers.run import Budget, Run, Step
from permsearch.stack import Piece, pieces

if TYPE_CHECKING:
    import numpy as np

    from permsearch.solvers.base import ColumnSolver
    from permsearch.stop import StoppingCriterion

_ASSIGNMENT = 60  # of n groups: n ** 2.5 times as many entries could be priced meanwhile
_OVERHEAD = 5e5  # entries that could be priced while a step does nothing


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPart:
    """A stack of columns as the loop sees it."""

    piece: Piece

    @property
    def effort(self) -> float:
        """Time of an annealing step, in entries priced: prices, assignment, overhead."""
        columns, rows = self.piece.stack.columns.shape
        groups = columns // self.piece.stack.m
        return float(groups**2 * rows + _ASSIGNMENT * groups**2.5 + _OVERHEAD)

    def begin(self, solution: Solution) -> NDArray[np.int64]:
        """Return the stack's part of its variable's order."""
        return self.piece.local(solution[self.piece.variable])

    def value(self, order: NDArray[np.int64], tiles: NDArray[np.int64] | None) -> float:
        """Return the retained score of an order of the stack."""
        del tiles
        return self.piece.stack.total(order)

    def place(self, solution: dict[str, Order], order: NDArray[np.int64]) -> None:
        """Put the stack's order into its variable's."""
        name = self.piece.variable
        solution[name] = self.piece.place(solution[name], order)

    def report(self, run: Run, proof: Proven, tiles: NDArray[np.int64] | None) -> None:
        """Tell the run what was proven of the stack, in the stack's units."""
        del tiles
        if proof.optimum is not None:
            run.limits.append((self.piece, proof.optimum / self.piece.stack.scale, "exact"))
        elif proof.limit is not None:
            run.limits.append((self.piece, *proof.limit))


def solve_columns(
    solver: ColumnSolver,
    problem: Problem,
    *,
    stop: StoppingCriterion,
    start: Mapping[str, ArrayLike] | None,
    seed: int,
    variables: Collection[str] | None = None,
) -> SearchResult:
    """Run a column solver on every independent stack of a problem and return the result.

    `variables` restricts the search to some of the problem's variables.
    """
    method = Method(solver, partial(_steps, solver), solver.scheduled)
    find = partial(_parts, variables=variables)
    return solve_parts(method, problem, find, stop=stop, start=start, seed=seed)


def _parts(problem: Problem, variables: Collection[str] | None) -> Iterator[Part]:
    return (ColumnPart(piece) for piece in pieces(problem, variables))


def _steps(
    solver: ColumnSolver,
    part: Part,
    order: NDArray[np.int64],
    rng: np.random.Generator,
    budget: Budget,
) -> Iterator[Step]:
    assert isinstance(part, ColumnPart)
    return solver._run(part.piece.stack, order, rng, budget)  # noqa: SLF001
