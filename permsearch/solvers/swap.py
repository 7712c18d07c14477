"""Greedy channel swaps down to an order that no swap of two columns improves, proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permsearch.solvers.base import Budget, ColumnSolver, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.stack import Stack


@dataclass(frozen=True, slots=True)
class Swap(ColumnSolver):
    """Swap columns of different groups, best first, until provably no swap gains.

    All swaps are priced at once from the holes the columns leave (one L1 distance matrix). A
    step is one batched pass: the best partner of every column, then the swaps in order of their
    gain wherever both groups are still fresh, each confirmed in float64. Passes over 8-bit
    columns come first where the processor has the instruction for them; float32 passes follow,
    and the last one proves that no swap gains more than 1e-6 of a group's value.

    Beyond 8192 columns the groups are searched in blocks, two at a time, until no pair of blocks
    improves, and there are no kicks.

    Parameters
    ----------
    kicks
        How often to shuffle up to four columns of each of three groups at a local optimum and
        descend again; a kick that ends lower is taken back. The order that is returned is proven
        1-swap optimal in any case.
    """

    kicks: int = 16

    def __post_init__(self) -> None:
        if self.kicks < 0:
            raise ValueError(f"kicks must be at least 0, got {self.kicks}.")

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.solvers._swap_descent import descend

        del budget
        yield from descend(stack.columns, order, stack.n, stack.m, kicks=self.kicks, rng=rng)


def polish(
    columns: NDArray[np.float32], order: NDArray[np.int64], n: int, m: int
) -> NDArray[np.int64]:
    """Return an order that no swap improves, reached from ``order`` by float32 passes alone.

    Parameters
    ----------
    columns : float32 array, shape (C, R)
    order : int64 array, shape (C,)
        Left as it is.
    n, m : int
    """
    from permsearch.solvers._swap_descent import descend

    for step in descend(columns, order.copy(), n, m, screen=False):
        order = step.order
    return order
