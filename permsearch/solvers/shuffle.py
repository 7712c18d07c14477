"""Row orders for patterns whose groups of rows keep columns in common: Shfl-BW and tile-wise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import check_number
from permsearch.patterns import TileWise, VectorWise
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.solvers.run import Budget, Step
from permsearch.stop import Never, StoppingCriterion

_DEFAULT_STEPS = 20_000
_LEAST_QUIET = 16  # steps without noise


@dataclass(frozen=True, slots=True)
class Shuffle(MatrixSolver):
    """Deal rows into groups that keep the same columns: reassign all, then exchange a few.

    First all rows are dealt anew, by an exact balanced assignment, for the columns that their
    groups keep, as long as that gains: it finds clusters that are there. Then an annealing, where
    a step takes one random row out of every group (of 128 groups where there are more), prices
    each in each hole as if the groups were without the rows taken out, and puts all back by an
    exact assignment under Gaussian noise. Leaving the rows out is what keeps a group from liking
    its own rows best only because they voted for its columns.

    Rows that a tile-wise pattern drops stand in groups of their own, from where they may return;
    how many there are is chosen anew, exactly, for each round. Such a pattern tries several
    starts, by how strong the rows are, and goes on from the best of them; the order of published
    pruning is looked at, too.

    The schedule fills the budget: rounds of ever more steps, each a complete anneal with a usable
    result, see `permsearch.solvers._shuffle_rounds.Rounds`. A step is one exchange or, at the
    beginning, one start or reassignment of all rows; the default is 20,000, fewer where that
    would take longer than ten seconds or so.

    Parameters
    ----------
    hot, cold
        Noise at the start and the end of a round, in units of the scores' standard deviation
        times the root of the columns that a group keeps.
    tail
        Share of a round's steps that are done without noise at its end.
    """

    hot: float = 0.4
    cold: float = 0.0
    tail: float = 0.1

    patterns: ClassVar[tuple[type, ...]] = (VectorWise, TileWise)
    scheduled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("hot", "cold", "tail"):
            check_number(name, getattr(self, name))
        if not 0 <= self.cold <= self.hot < math.inf:
            raise ValueError(f"need 0 <= cold <= hot, got cold={self.cold}, hot={self.hot}.")
        if not 0 <= self.tail < 1:
            raise ValueError(f"tail must lie in [0, 1), got {self.tail}.")

    @property
    def default_stop(self) -> StoppingCriterion:
        """The search ends by itself."""
        return Never()

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        from permsearch.solvers._row_groups import row_groups
        from permsearch.solvers._shuffling import Shuffling

        rows, cols = part.split(order)
        groups = row_groups(part.pattern, part.scores)
        search = Shuffling(groups, self._noises, rng, budget, _DEFAULT_STEPS)
        for step in search.steps(rows):
            found = part.join(step.order, cols)
            yield Step(step.steps, found, step.value, step.converged, planned=step.planned)

    def _noises(self, steps: int) -> NDArray[np.float64]:
        """Return the noise of every step of a round."""
        quiet = min(steps, max(_LEAST_QUIET, round(self.tail * steps)))
        return np.concatenate([np.linspace(self.hot, self.cold, steps - quiet), np.zeros(quiet)])
