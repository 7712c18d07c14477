"""Row orders for patterns whose groups of rows keep columns in common: Shfl-BW and tile-wise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import check_number
from permsearch.layout import taps_as_columns
from permsearch.patterns import TileWise, VectorWise
from permsearch.solvers._fill import Rounds
from permsearch.solvers.matrices import Budget, MatrixPart, MatrixSolver, Step
from permsearch.stop import MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    from permsearch.solvers._clusters import Clusters, Grouping

_DEFAULT_STEPS = 20_000
_REASSIGNMENTS = 8  # at most, before the annealing
_SWEEP = 4e8  # entries priced in a sweep, about 10 ms
_MOST_STEPS = 1024  # in a sweep
_FIRST = 256  # steps of the first round, fewer where a step is long
_FIRST_WORK = 1e9  # entries
_LOOKS = 8  # times in a long round that the best order so far is valued exactly
_VALUING = 20_000  # entries priced while one of the matrix is valued, with time to spare
_LEAST_QUIET = 16  # steps without noise


@dataclass(frozen=True, slots=True)
class Shuffle(MatrixSolver):
    """Deal rows into groups that keep the same columns: reassign all, then exchange a few.

    First all rows are dealt anew, by an exact balanced assignment, for the columns that their
    groups keep, as long as that gains: it finds clusters that are there. Then an annealing, where
    a step takes one random row out of every group (of 512 groups where there are more), prices
    each in each hole as if the groups were without the rows taken out, and puts all back by an
    exact assignment under Gaussian noise. Leaving the rows out is what keeps a group from liking
    its own rows best only because they voted for its columns.

    The schedule fills the budget: rounds of ever more steps, each a complete anneal with a usable
    result, see `permsearch.solvers._fill.Rounds`. A step is one exchange, or one reassignment of
    all rows at the beginning; the default is 20,000.

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
        """Run for 20,000 steps."""
        return MaxSteps(_DEFAULT_STEPS)

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        from permsearch.solvers._clusters import Clusters

        rows, cols = part.split(order)
        state = Clusters(_grouping(part, rows), rows, rng)
        for step in self._search(state, budget):
            found = step.order
            if step.value is None and isinstance(part.pattern, TileWise):
                found = _finished(part, state.grouping, found)
            joined = part.join(found, cols)
            yield Step(step.steps, joined, step.value, step.converged, planned=step.planned)

    def _search(self, state: Clusters, budget: Budget) -> Iterator[Step]:
        """Yield steps whose orders are those of the rows."""
        if len(state.grouping.first) <= 2:
            yield Step(0, state.best.copy(), converged=True)
            return
        begun = 0
        while begun < _REASSIGNMENTS and budget.steps != 0:
            begun += 1
            gained = state.reassign()
            yield Step(1, state.best.copy(), None if gained else 0.0)
            if not gained:
                break
        first = max(16, min(_FIRST, int(_FIRST_WORK / state.work)))
        watch = _Watch(budget)
        for length in Rounds(first, _DEFAULT_STEPS).lengths(budget, watch.seconds, begun):
            yield from self._round(state, length, watch)

    def _round(self, state: Clusters, steps: int, watch: _Watch) -> Iterator[Step]:
        noises = self._noises(steps)
        state.begin(state.best.copy())
        sweep = max(1, min(_MOST_STEPS, int(_SWEEP / state.work)))
        # valuing what is found in between is a small part of the work
        looks = min(_LOOKS, int(steps * state.work / (_VALUING * state.levels.size)))
        looked = done = 0
        while done < steps:
            part = noises[done : done + sweep]
            with watch:
                state.anneal(part)
            done += len(part)
            due = done * looks // steps > looked
            looked = done * looks // steps
            value = None if done == steps else state.value if due else 0.0
            yield Step(len(part), state.best.copy(), value, planned=True)

    def _noises(self, steps: int) -> NDArray[np.float64]:
        """Return the noise of every step of a round."""
        quiet = min(steps, max(_LEAST_QUIET, round(self.tail * steps)))
        return np.concatenate([np.linspace(self.hot, self.cold, steps - quiet), np.zeros(quiet)])


class _Watch:
    """Seconds spent on steps, on the budget's clock."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._sum, self._start = budget, 0.0, 0.0

    def __enter__(self) -> None:
        self._start = self._budget.used()

    def __exit__(self, *error: object) -> None:
        self._sum += self._budget.used() - self._start

    def seconds(self) -> float:
        """Return the sum so far."""
        return self._sum


def _finished(part: MatrixPart, grouping: Grouping, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order whose last tile gains most by dropping rows."""
    from permsearch.solvers._last_tile import weakest_last

    assert isinstance(part.pattern, TileWise)
    matrix = np.minimum(grouping.matrix, np.float32(grouping.cap))
    return weakest_last(matrix, order, part.pattern.g, grouping.area)


def _grouping(part: MatrixPart, rows: NDArray[np.int64]) -> Grouping:
    """Return what is to be grouped for a part's pattern."""
    from permsearch.solvers._clusters import Grouping

    pattern = part.pattern
    matrix = np.ascontiguousarray(taps_as_columns(part.scores))
    if isinstance(pattern, VectorWise):
        first = np.arange(0, len(matrix) + 1, pattern.v)
        area = pattern.v * pattern.count(part.scores.shape)
        return Grouping(matrix, first, area, pattern.balance == "layer")
    assert isinstance(pattern, TileWise)
    first = np.append(np.arange(0, len(matrix), pattern.g), len(matrix))
    area, over = pattern.areas(part.scores.shape)
    cap = np.inf
    if over:
        tiles = pattern.tiles(part.scores[rows])
        outside = matrix[rows][~tiles.mask()]
        count = min(over, outside.size)
        cap = float(np.partition(outside, outside.size - count)[outside.size - count])
    return Grouping(matrix, first, area, together=True, cap=cap if cap > 0 else np.inf)
