"""Orders of rows and columns for transposable N:M."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from permsearch.checks import check_number
from permsearch.patterns import TransposableNM
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.solvers.run import Budget, Step
from permsearch.stop import MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DEFAULT_STEPS = 30
_FIRST = 2  # steps of the first round
_SMALL = 4  # sides of a block up to which columns have few patterns


@dataclass(frozen=True, slots=True)
class Transposable(MatrixSolver):
    """Move rows and columns of a weight with transposable masks, one axis after the other.

    Blocks up to 4 x 4: simulated annealing. With one column of a group left out, what the group
    holds with any other column in its place is a maximum over the few patterns of a column, so
    that a swap is priced exactly by two of these maxima. A step is 64 proposals for every free
    row and column; the budget is split into rounds, each a complete annealing.

    Larger blocks: many disjoint swaps at a time. Prices of the rows inside each block, the duals of
    its best mask, tell at most how much any column can bring to it; the swaps that promise most
    are tried, the masks of their blocks solved anew, and those that gain are kept. A step is one
    such trial on every free axis.

    Parameters
    ----------
    hot, warm, cold
        Temperature at the begin of the last and of the shorter rounds, and at the end, in units
        of the root mean square of what random swaps change.

    References
    ----------
    Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, Science 220 (1983).
    """

    hot: float = 0.14
    warm: float = 0.1
    cold: float = 0.06

    patterns: ClassVar[tuple[type, ...]] = (TransposableNM,)
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
        """Run for 30 steps."""
        return MaxSteps(_DEFAULT_STEPS)

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        pattern = part.pattern
        assert isinstance(pattern, TransposableNM)
        if pattern.m > _SMALL:
            from permsearch.solvers._transposable_trials import trials

            yield from trials(part, order, rng)
            return
        from permsearch.solvers._axis_annealing import AxisAnnealing, free_axes
        from permsearch.solvers._axis_rounds import round_lengths
        from permsearch.solvers._transposable_axes import PatternAxes

        rows, cols = part.split(order.copy())
        state = PatternAxes(part.scores, pattern.n, pattern.m, (rows, cols), rng)
        axes = free_axes(part)
        state.measure(axes)
        search = AxisAnnealing(part, axes, order, state.look(axes[0]))
        for length, last in round_lengths(budget, _DEFAULT_STEPS, _FIRST):
            heat = (self.hot if last else self.warm, self.cold)
            yield from search.run(state, length, heat)
