"""Row and column orders for V:N:M: strips and groups annealed together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from permsearch.checks import check_number
from permsearch.layout import taps_as_rows
from permsearch.patterns import VNM
from permsearch.solvers.base import Budget, Step
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.stack import Stack
from permsearch.stop import Never, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from permsearch.solvers._vnm_chain import Chain

_OPENING = 12  # steps without noise
_SOAK = 4  # hot ones
_LONG = 150  # steps from which the noise begins in full
_TAIL = 0.1  # part of the schedule without noise
_SWEEP = 2e7  # entries priced between two reports, about 10 ms
_DEFAULT = 6e9  # entries priced where nothing limits the run
_MOST_STEPS, _LEAST_STEPS = 1000, 30
_LARGE = 1 << 22  # entries from which rows are exchanged
_VALUED = 3  # steps on a large weight between two values


@dataclass(frozen=True, slots=True)
class VNMSearch(MatrixSolver):
    """Anneal the rows and columns of V:N:M weights together.

    A step moves all rows and then one column of every group. Rows go to the strips whose live
    columns suit them best (a balanced assignment), columns to the groups that keep most with them
    (an assignment priced by holes, see `permsearch.kernels.vnm_columns`); both under Gaussian
    noise that falls to zero over the run. Live columns are always the best of all sets. In large
    weights, where every row is held by its own vote in its strip's choice, a step instead
    takes up to 32 times one row out of every strip and puts them back where they do best.

    The first 12 steps are without noise, which is what a short run gets, the last of them with
    exchanges, which free rows that assignments cannot move; 4 hot ones follow. The
    schedule then fills the budget; without a criterion it has up to 1000 steps, fewer for large
    weights.

    V = 1 and M = 4 are plain 2:M, which is left to what `auto` takes for it.

    Parameters
    ----------
    noise
        Of rows at the beginning, in standard deviations of a row's worth in the strips.
    column_noise
        Of columns at the beginning, likewise.
    rows
        How rows move: `assignment`, `exchange`, or `auto` for what suits the size.

    References
    ----------
    The pattern is that of Castro et al.: VENOM, SC 2023, which has no search.
    """

    noise: float = 0.8
    column_noise: float = 0.1
    rows: Literal["auto", "assignment", "exchange"] = "auto"

    patterns: ClassVar[tuple[type, ...]] = (VNM,)
    scheduled: ClassVar[bool] = True
    warm_steps: ClassVar[int] = _OPENING + _SOAK + 4

    def __post_init__(self) -> None:
        for name in ("noise", "column_noise"):
            value = getattr(self, name)
            check_number(name, value)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be finite and not negative, got {value}.")
        if self.rows not in ("auto", "assignment", "exchange"):
            raise ValueError(
                f"unknown way to move rows {self.rows!r}; choose 'auto', 'assignment' or "
                "'exchange'."
            )

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
        from permsearch.solvers._vnm_chain import Chain

        assert isinstance(part.pattern, VNM)
        if "rows" not in part.pattern.axes and part.scores.shape[1] > part.pattern.m:
            yield from _plain(part, part.pattern, order, rng, budget)
            return
        large = part.scores.size >= _LARGE
        exchanges = self.rows == "exchange" or (self.rows == "auto" and large)
        chain = Chain(part, order, rng, exchanges=exchanges)
        begun = budget.used()
        for done in range(budget.sweep(_OPENING)):
            chain.step(0.0, 0.0, exchange=done == _OPENING - 1)
            # valuing a large weight takes as long as a step: not all of them are
            valued = not large or done % _VALUED == 0
            yield _report(part, chain, 1) if valued else Step(1, order, 0.0)
        middle = budget.used()
        for _ in range(budget.sweep(_SOAK)):
            chain.step(self.noise, self.column_noise)
            yield _report(part, chain, 1)
        # steps are slowest where it is hottest
        step = ((middle - begun) / _OPENING + (budget.used() - middle) / _SOAK) / 2
        default = int(min(_MOST_STEPS, max(_LEAST_STEPS, _DEFAULT / chain.effort)))
        steps = budget.left(1 / max(step, 1e-9), default)
        yield from self._anneal(part, chain, steps)

    def _anneal(self, part: MatrixPart, chain: Chain, steps: int) -> Iterator[Step]:
        """Yield while the noise falls over so many steps; short runs are less noisy."""
        falling = round((1 - _TAIL) * steps)
        hot = min(1.0, math.sqrt(steps / _LONG))
        sweep = max(_VALUED if part.scores.size >= _LARGE else 1, int(_SWEEP / chain.effort))
        since = 0
        for step in range(steps):
            if step == falling:
                chain.back_to_best()
            heat = hot * (1 - step / falling) if step < falling else 0.0
            chain.step(self.noise * heat, self.column_noise * heat)
            since += 1
            if since == sweep or step == steps - 1:
                yield _report(part, chain, since, planned=True)
                since = 0


def _plain(
    part: MatrixPart,
    pattern: VNM,
    order: NDArray[np.int64],
    rng: np.random.Generator,
    budget: Budget,
) -> Iterator[Step]:
    """Search for the 2:M that the pattern is where V = 1 or M = 4."""
    import numpy as np

    from permsearch.solvers.auto import method_for

    rows, cols = part.split(order)
    columns = np.ascontiguousarray(taps_as_rows(part.scores).T)
    stack = Stack(columns, pattern.n, pattern.m, 1.0)
    method = method_for(len(columns), pattern.m)
    for step in method._run(stack, cols.copy(), rng, budget):  # noqa: SLF001
        yield replace(step, order=part.join(rows, step.order))


def _report(part: MatrixPart, chain: Chain, steps: int, *, planned: bool = False) -> Step:
    return Step(steps, part.join(*chain.best), chain.best_value, planned=planned)
