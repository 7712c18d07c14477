"""Pairing by maximum-weight perfect matching: exact for 1:2, level by level for larger groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.checks import keep_whole
from permsearch.solvers.base import Budget, ColumnSolver, Step, column_obstacle
from permsearch.stack import group_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from permsearch.problem import Problem
    from permsearch.stack import Stack

    I64 = NDArray[np.int64]

_MOST_PARTS = 4096  # parts matched at once; more are dealt into blocks


@dataclass(frozen=True, slots=True)
class Matching(ColumnSolver):
    """Pair columns, then pairs, then pairs of pairs, each by maximum-weight perfect matching.

    1:2 is solved to proven optimality up to 4096 columns. Otherwise, for M a power of two, parts
    of the groups are built level by level, as if a part of s columns kept its N s / M largest.
    Then, for any even M, every group is cut into random halves and all halves are matched anew,
    which never loses; and a swap descent ends the search. A step is one matching, or one pass of
    the descent.

    Parameters
    ----------
    rounds
        How often all groups are cut in halves and matched again.

    References
    ----------
    Edmonds: Paths, trees, and flowers, Canadian Journal of Mathematics 17 (1965). Galil: Efficient
    algorithms for finding maximum matching in graphs, ACM Computing Surveys 18 (1986).
    """

    rounds: int = 4

    def __post_init__(self) -> None:
        keep_whole(self, "rounds", "rounds", 0)

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""
        reason = column_obstacle(problem)
        if reason is not None:
            return reason
        for m in group_sizes(problem):
            if m % 2:
                return f"groups of {m} have no halves to match; use solver 'swap'."
        return None

    def _run(
        self, stack: Stack, order: I64, rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.solvers._swap_descent import descend

        del budget
        columns, n, m = stack.columns, stack.n, stack.m
        if m == 2:
            exact = len(columns) <= _MOST_PARTS
            order = matched(columns.astype(np.float64), order[:, None], 1, exact=exact).ravel()
            yield Step(1, order, converged=True, optimal=exact)
            return
        if m & (m - 1) == 0:
            parts = order[:, None]
            while parts.shape[1] < m:
                keep = max(1, n * 2 * parts.shape[1] // m)
                parts = matched(columns, parts, keep)
                yield Step(1, parts.ravel())
            order = parts.ravel()
        for _ in range(self.rounds):
            halves = rng.permuted(order.reshape(-1, m), axis=1).reshape(-1, m // 2)
            order = matched(columns, halves, n).ravel()
            yield Step(1, order)
        yield from descend(columns, order, n, m, screen=False)


def matched(columns: NDArray[Any], parts: I64, n: int, *, exact: bool = False) -> I64:
    """Return the parts joined two by two so that the unions' n largest sum to the most.

    Parameters
    ----------
    columns : float array, shape (C, R)
    parts : int64 array, shape (P, size)
        Columns of each part; P is even. Neighbours count as paired at present.
    n : int
    exact : bool
        Whether to prove the pairing optimal.
    """
    from permsearch.kernels.pairs import top_lists, union_values
    from permsearch.solvers._pairing import best_pairing

    blocks = -(-len(parts) // _MOST_PARTS)
    joined = []
    for block in range(blocks):
        # whole pairs are dealt to the blocks, so that the present pairing stays possible
        some = parts.reshape(len(parts) // 2, -1)[block::blocks].reshape(-1, parts.shape[1])
        values = union_values(top_lists(columns, some, n))
        present = np.arange(len(some)).reshape(-1, 2)
        joined.append(some[best_pairing(values, present, exact=exact)])
    return np.concatenate(joined).reshape(len(parts) // 2, -1)
