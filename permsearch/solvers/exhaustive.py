"""Few columns: the proven optimum by dynamic programming over all groupings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.typing import NDArray

from permsearch.problem import Problem
from permsearch.solvers.base import Budget, ColumnSolver, Step, column_obstacle
from permsearch.stack import Stack, pieces

if TYPE_CHECKING:
    import numpy as np

MAX_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Exhaustive(ColumnSolver):
    """Find the best grouping of at most 16 columns, proven. One step a stack."""

    def supports(self, problem: Problem) -> str | None:
        """N:M problems whose independent stacks have at most 16 columns."""
        reason = column_obstacle(problem)
        if reason is not None:
            return reason
        widest = max((len(piece.stack.columns) for piece in pieces(problem)), default=0)
        if widest > MAX_COLUMNS:
            return f"{widest} columns are too many (at most {MAX_COLUMNS}); use 'auto'."
        return None

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.kernels.partition import best_partition, subset_values

        del order, rng, budget
        values = subset_values(stack.columns, stack.n, stack.m)
        yield Step(1, best_partition(values, len(stack.columns), stack.m), optimal=True)
