"""Hierarchical N:M: rows are grouped by annealed assignments, then columns inside each tile."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from permsearch.checks import check_number
from permsearch.patterns import HiNM
from permsearch.solvers.base import Budget, Step
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.stop import Never, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.solvers._hinm_search import Search

_OPENING = 6  # steps of rows, and as many of columns
_TAIL = 0.2  # part of the rows' and of the columns' schedule without noise
_SWEEP = 3e7  # entries priced between two reports, about 10 ms
_DEFAULT = 5e9  # entries where nothing limits the run
_MOST_STEPS, _LEAST_STEPS = 1500, 60
_ROW_SHARE = 0.5  # of the steps
_SPEED_UP = 1.3  # the first steps are slower than those that follow


@dataclass(frozen=True, slots=True)
class HiNMSearch(MatrixSolver):
    """Group rows that like the same vectors, then give each tile its own columns and groups.

    Rows come first, if they are free: as for vectors (see `permsearch.solvers.Shuffle`) a step
    takes one row out of every tile and puts them back where they do best, many times, under
    Gaussian noise that falls to zero. What counts of an entry is what it exceeds a level of its
    row by, since entries far below those that a row keeps are dropped inside its groups in any
    case.

    In convolutions, whose taps may weigh differently and keep as many vectors each, all rows are
    dealt anew under noise instead.

    Then columns, which need no order in the weight: a step takes one column out of every group of
    a tile and fills the holes from these and from dropped ones, so that vectors that were dropped
    for their sum come in where they serve the groups; again by assignments under falling noise.

    The first steps, up to 13, are a quick search of both kinds. The schedule then fills the
    budget, half of its steps with rows; without a criterion it has up to 1500 steps, fewer for
    large weights.
    The stored order of columns stays as it is.

    Parameters
    ----------
    noise
        Of rows at the beginning, in standard deviations of what counts of the entries, times the
        root of the vectors that a tile keeps.
    column_noise
        Of columns at the beginning, in standard deviations of a column's worth in the groups.

    References
    ----------
    The pattern is that of Yu et al., arXiv 2407.20496; their own search is `gyro`.
    """

    noise: float = 0.4
    column_noise: float = 0.1

    patterns: ClassVar[tuple[type, ...]] = (HiNM,)
    scheduled: ClassVar[bool] = True
    warm_steps: ClassVar[int] = 2 * _OPENING + 9

    def __post_init__(self) -> None:
        for name in ("noise", "column_noise"):
            value = getattr(self, name)
            check_number(name, value)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {value}.")

    @property
    def default_stop(self) -> StoppingCriterion:
        """The schedule ends by itself."""
        return Never()

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        import numpy as np

        from permsearch.solvers._hinm_search import Search

        search = Search(part, order, rng)
        yield from _reassigned(search, order, budget.sweep(_OPENING))
        search.cut()
        begun = budget.used()
        columns = budget.sweep(_OPENING)
        sweep = max(1, int(_SWEEP / search.effort))
        for first in range(0, columns, sweep):
            some = np.zeros(min(sweep, columns - first))
            search.move_columns(some)
            yield _report(part, search, len(some))
        seconds = (budget.used() - begun) / max(1, columns)
        if search.clusters is not None:
            begun = budget.used()
            search.clusters.anneal(np.full(search.exchanges, self.noise))
            yield Step(1, order, 0.0)
            seconds = (seconds + budget.used() - begun) / 2
        default = int(min(_MOST_STEPS, max(_LEAST_STEPS, _DEFAULT / search.effort)))
        steps = budget.left(_SPEED_UP / max(seconds, 1e-9), default)
        rows = 0 if search.clusters is None else round(_ROW_SHARE * steps)
        yield from self._move_rows(search, order, rows)
        yield from self._move_columns(part, search, steps - rows)

    def _move_rows(self, search: Search, order: NDArray[np.int64], steps: int) -> Iterator[Step]:
        """Yield while the noise of the rows falls over so many steps; then cut tiles anew."""
        if search.clusters is None or steps == 0:
            return
        size = search.exchanges
        noises = _falling(self.noise, steps * size)
        for first in range(0, steps * size, size):
            search.clusters.anneal(noises[first : first + size])
            yield Step(1, order, 0.0, planned=True)
        search.cut()

    def _move_columns(self, part: MatrixPart, search: Search, steps: int) -> Iterator[Step]:
        """Yield while the noise of the columns falls over so many steps."""
        noises = _falling(self.column_noise, steps)
        quiet = steps - math.ceil(_TAIL * steps)
        sweep = max(1, int(_SWEEP / search.effort))
        for first in range(0, steps, sweep):
            if first >= quiet > first - sweep:
                for tile in search.tiles:
                    tile.back_to_best()
            some = noises[first : first + sweep]
            search.move_columns(some)
            yield _report(part, search, len(some), planned=True)


def _reassigned(search: Search, order: NDArray[np.int64], most: int) -> Iterator[Step]:
    """Deal all rows anew while that gains, which finds clusters that are there."""
    for _ in range(most if search.clusters is not None else 0):
        assert search.clusters is not None
        gains = search.clusters.reassign()
        yield Step(1, order, 0.0)
        if not gains:
            return


def _falling(hot: float, steps: int) -> NDArray[np.float64]:
    """Return the noise of every step: falling to zero, then none."""
    import numpy as np

    quiet = math.ceil(_TAIL * steps)
    return np.concatenate([hot * np.linspace(1, 0, steps - quiet, endpoint=False), np.zeros(quiet)])


def _report(part: MatrixPart, search: Search, steps: int, *, planned: bool = False) -> Step:
    order = part.join(search.rows, search.cols)
    return Step(steps, order, search.value, planned=planned, tiles=search.orders)
