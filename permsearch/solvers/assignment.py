"""Noise-free assignment: one random column out of every group, all put back at once, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permsearch.solvers.base import Budget, ColumnSolver, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.stack import Stack

_SWEEP = 16  # steps between two looks at the budget


@dataclass(frozen=True, slots=True)
class Assignment(ColumnSolver):
    """Take a random column out of every group and reassign all of them, as long as that gains.

    A step is one linear assignment on 8-bit prices (Jonker and Volgenant's method, warm-started);
    a step that does not gain changes nothing. After `patience` steps without a gain, a float32
    descent makes the order one that no swap improves; its passes are steps too.

    Parameters
    ----------
    patience
        Steps without a gain after which the search ends.

    References
    ----------
    Jonker, Volgenant: A shortest augmenting path algorithm for dense and sparse linear assignment
    problems, Computing 38 (1987).
    """

    patience: int = 64

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1, got {self.patience}.")

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        import numpy as np

        from permsearch.solvers._annealing import AssignmentChain
        from permsearch.solvers._swap_descent import descend

        chain = AssignmentChain(stack, order, rng)
        idle, mark = 0, chain.mark
        while idle < self.patience:
            steps = budget.sweep(_SWEEP)
            chain.sweep(np.zeros(steps))
            idle = idle + steps if chain.mark == mark else 0
            mark = chain.mark
            yield Step(steps, chain.best)
        yield from descend(stack.columns, chain.best, stack.n, stack.m, screen=False)
