"""Annealing by swaps of rows and columns for patterns of blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from permsearch.checks import check_number
from permsearch.patterns import Block, UnalignedBlock
from permsearch.problem import Problem, Term
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.solvers.run import Budget, Step
from permsearch.stop import MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DEFAULT_STEPS = 2000
_FIRST = 16  # steps of the first round
_TURNS = 16  # of TETRIS's swaps, at most, where they are cheap: up to so many groups of an axis
_FEW_GROUPS = 128


@dataclass(frozen=True, slots=True)
class Blocks(MatrixSolver):
    """Anneal the orders of rows and columns whose best blocks stay.

    The free axes take turns. Swaps of two items of different groups are accepted by Metropolis'
    rule on the sum of what blocks exceed a price by, the price of the K-th largest block at the
    turn's begin: a swap then costs two rows of block sums, wherever K blocks are chosen from. An
    annealing ends with swaps that only gain, and exact assignments of all items of an axis for the
    blocks that stay. A step is 16 proposals for every free row and column (2 for
    blocks of one row or column); the default is 2000.

    Weights of few groups begin with the first turns of `tetris`, a step each. Then the budget is
    split into rounds, each longer than all before, and the last into two annealings: one that
    forgets the order it begins with, and one from the best so far that does not.

    For unaligned blocks it searches for good aligned ones of one row; unaligned ones are no worse
    under the same order.

    Parameters
    ----------
    hot, warm
        Temperature at which an annealing begins that forgets its start, and one that does not, in
        units of the root mean square of what random swaps change.
    cold
        Temperature at the end.

    References
    ----------
    Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, Science 220 (1983).
    """

    hot: float = 0.2
    warm: float = 0.04
    cold: float = 0.005

    patterns: ClassVar[tuple[type, ...]] = (Block, UnalignedBlock)
    scheduled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("hot", "warm", "cold"):
            check_number(name, getattr(self, name))
        if not 0 < self.cold <= self.warm <= self.hot < math.inf:
            raise ValueError(
                f"need 0 < cold <= warm <= hot, got cold={self.cold}, warm={self.warm}, "
                f"hot={self.hot}."
            )

    @property
    def default_stop(self) -> StoppingCriterion:
        """Run for 2000 steps."""
        return MaxSteps(_DEFAULT_STEPS)

    def refuses(self, problem: Problem, term: Term) -> str | None:
        """Say why a term cannot be searched although its variables are its own, or None."""
        pattern, columns = term.pattern, term.scores.shape[1]
        if isinstance(pattern, UnalignedBlock) and columns < 2 * pattern.size:
            what = term.name or "the weight"
            return f"{columns} columns of {what} are too few for two blocks of {pattern}"
        return MatrixSolver.refuses(self, problem, term)

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        from permsearch.solvers._axis_annealing import AxisAnnealing, free_axes
        from permsearch.solvers._axis_rounds import round_lengths
        from permsearch.solvers._block_search import axes_of, improve, take_turns

        state, axes = axes_of(part, order, rng), free_axes(part)
        state.measure(axes)
        search = AxisAnnealing(part, axes, order, state.look(axes[0]))
        if max(state.groups) <= _FEW_GROUPS:
            yield from take_turns(search, state, budget.sweep(_TURNS))
        for length, last in round_lengths(budget, _DEFAULT_STEPS, _FIRST):
            hot = length // 2 if last else 0
            if hot:
                yield from search.run(state, hot, (self.hot, self.cold))
            finish = partial(improve, search, state) if last else None
            yield from search.run(state, length - hot, (self.warm, self.cold), finish)
