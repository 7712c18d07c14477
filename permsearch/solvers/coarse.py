"""Matching and swaps on 8-bit scores alone: the level for stacks of any height."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permsearch.checks import keep_whole
from permsearch.solvers.base import Budget, ColumnSolver, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.stack import Stack


@dataclass(frozen=True, slots=True)
class Coarse(ColumnSolver):
    """Pair columns and pairs of columns, then swap, all by exact sums of 8-bit scores.

    The moves are those of `matching`, at a fifth of the cost; what is lost is the rounding to 255
    levels. The same search runs on stacks that do not fit into memory
    (`permsearch.streaming.search_rows`). A step is one matching, or one pass of the swaps.

    Parameters
    ----------
    rounds
        How often all groups are cut in random halves and the halves matched anew.
    passes
        Passes of the swaps at most.
    device
        Where distances are computed: "cpu", or what an installed package offers.
    """

    rounds: int = 2
    passes: int = 16
    device: str = "cpu"

    def __post_init__(self) -> None:
        keep_whole(self, "rounds", "rounds", 0)
        keep_whole(self, "passes", "passes", 0)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.streaming.device import open_device
        from permsearch.streaming.levels import held_levels, step_of
        from permsearch.streaming.rows import ArrayRows, survey
        from permsearch.streaming.search import CoarseOptions, search_levels

        del budget
        seen = survey(ArrayRows([stack.columns.T]))
        step = step_of(seen, stack.n, stack.m, stack.columns.shape[1])
        levels = held_levels(stack.columns, step)
        options = CoarseOptions(self.rounds, self.passes)
        device = open_device(self.device)
        yield from search_levels(levels, order, (stack.n, stack.m), rng, options, device)
