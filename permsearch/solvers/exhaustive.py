"""Few columns: the proven optimum by dynamic programming over all groupings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.problem import Problem
from permsearch.result import SearchResult
from permsearch.solvers.base import Budget, Step, column_obstacle, solve_columns
from permsearch.stack import Stack, pieces
from permsearch.stop import Never, StoppingCriterion

MAX_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Find the best grouping of at most 16 columns, proven. One step a stack."""

    @property
    def default_stop(self) -> StoppingCriterion:
        """It ends by itself, in well under a second."""
        return Never()

    def supports(self, problem: Problem) -> str | None:
        """N:M problems whose independent stacks have at most 16 columns."""
        reason = column_obstacle(problem)
        if reason is not None:
            return reason
        widest = max((len(piece.stack.columns) for piece in pieces(problem)), default=0)
        if widest > MAX_COLUMNS:
            return f"{widest} columns are too many (at most {MAX_COLUMNS}); use 'auto'."
        return None

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return a proven optimum."""
        return solve_columns(self, problem, stop=stop, start=start, seed=seed)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.kernels.partition import best_partition, subset_values

        del order, rng, budget
        values = subset_values(stack.columns, stack.n, stack.m)
        yield Step(1, best_partition(values, len(stack.columns), stack.m), optimal=True)
