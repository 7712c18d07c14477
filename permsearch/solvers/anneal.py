"""Simulated annealing of column orders: whole assignments under noise, or swaps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from permsearch.checks import check_number
from permsearch.solvers.base import Budget, ColumnSolver, Step
from permsearch.stop import MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.stack import Stack

_FEW_GROUPS = 8  # below that a whole assignment moves too little
_WIDE_GROUPS = 16  # from that size on one column out of a group is too small a part of it
_FEW_ROWS = 12  # below that most assignments tie, which makes large ones slow; swaps do as well
_MANY_GROUPS = 256
_DEFAULT_STEPS = 4000
_LEAST_QUIET = 10  # steps without noise


@dataclass(frozen=True, slots=True)
class Anneal(ColumnSolver):
    """Anneal column orders: hot at first, so that they move freely, then ever colder.

    With `assignment` a step takes one random column out of every group (of 1024 random groups
    where there are more) and puts all of them back by an exact linear assignment under Gaussian
    noise. With `swap` a step proposes as many swaps
    as there are columns and accepts losses by Metropolis' rule. Both work on 8-bit columns; the
    result is finished in float32 and confirmed in float64: by a descent to an order that no swap
    improves or, where that would take too large a part of the run, by noise-free assignments.

    The schedule fills the budget: rounds of 64, 256, 1024, ... steps, each a complete anneal with
    a usable result, then one that is at least seven times longer than all before. It depends on
    the number of steps alone. A run limited in time measures its speed in each round and fixes the
    length of the last one when it begins, so `MaxSteps` of its steps repeats it exactly.

    Parameters
    ----------
    hot, cold
        Noise at the start and the end of a round, in units of 1.25 times the mean entry (the
        standard deviation of Gaussian weights) times the root of R / 384 for R rows. The end
        is colder where the columns' norms differ much.
    tail
        Share of a round's steps that are done without noise at its end.
    method
        What moves; `auto` takes swaps where groups are few (under 8) or wide (16 and more), and
        where rows are few (under 12).

    References
    ----------
    Kirkpatrick, Gelatt, Vecchi: Optimization by simulated annealing, Science 220 (1983).
    """

    hot: float = 0.6
    cold: float = 0.4
    tail: float = 0.04
    method: Literal["auto", "assignment", "swap"] = "auto"

    scheduled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("hot", "cold", "tail"):
            check_number(name, getattr(self, name))
        if not 0 <= self.cold <= self.hot < math.inf:
            raise ValueError(f"need 0 <= cold <= hot, got cold={self.cold}, hot={self.hot}.")
        if not 0 <= self.tail < 1:
            raise ValueError(f"tail must lie in [0, 1), got {self.tail}.")
        if self.method not in ("auto", "assignment", "swap"):  # a list has no hash
            raise ValueError(
                f"unknown method {self.method!r}; choose 'auto', 'assignment' or 'swap'."
            )

    @property
    def default_stop(self) -> StoppingCriterion:
        """Run for 4000 steps."""
        return MaxSteps(_DEFAULT_STEPS)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.solvers._annealing import AssignmentChain, SwapChain
        from permsearch.solvers._rounds import run_rounds

        columns, rows = stack.columns.shape
        swaps = self.method == "swap" or (
            self.method == "auto" and prefers_swaps(columns, rows, stack.m)
        )
        chain = (SwapChain if swaps else AssignmentChain)(stack, order, rng)
        yield from run_rounds(chain, budget, self._noises, _DEFAULT_STEPS)

    def _noises(self, steps: int, steadiness: float) -> NDArray[np.float64]:
        """Return the noise of every step of a round."""
        import numpy as np

        quiet = min(steps, max(_LEAST_QUIET, round(self.tail * steps)))
        falling = np.linspace(self.hot, self.cold * steadiness, steps - quiet)
        return np.concatenate([falling, np.zeros(quiet)])


def prefers_swaps(columns: int, rows: int, m: int) -> bool:
    """Decide what moves in a stack of this shape where the method is `auto`."""
    groups = columns // m
    tied = rows < _FEW_ROWS and groups > _MANY_GROUPS
    return groups < _FEW_GROUPS or tied or m >= _WIDE_GROUPS
