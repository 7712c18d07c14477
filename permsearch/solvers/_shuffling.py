"""One search for row groups: starts, reassignments, and rounds of annealed exchange.

Imported only where it runs, since it loads kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from permsearch.solvers._clusters import Clusters
from permsearch.solvers._row_groups import RowGroups
from permsearch.solvers._shuffle_rounds import Rounds
from permsearch.solvers.run import Budget, Step

I64 = NDArray[np.int64]

_REASSIGNMENTS = 8  # at most, before the annealing
_SWEEP = 4e8  # entries priced in a sweep, about 10 ms
_MOST_STEPS = 1024  # in a sweep
_FIRST = 256  # steps of the first round, fewer where a step is long
_LEAST_FIRST = 16
_FIRST_WORK = 1e9  # entries
_DEFAULT_WORK = 2e11  # entries, where nothing limits a run
_COOL = 0.25  # of the noise is what several starts are tried with
_SECOND = 4  # times as long a round for the two best of several starts
_LOOKS = 8  # times in a long round that the best order so far is valued exactly
_VALUING = 20_000  # entries priced while one of the matrix is valued, with time to spare


class Shuffling:
    """The search of one weight.

    Parameters
    ----------
    groups
        How rows are grouped.
    noises
        Returns the noise of every step of a round of so many.
    rng, budget
        Of the part.
    default
        Steps where nothing limits them.
    """

    def __init__(
        self,
        groups: RowGroups,
        noises: Callable[[int], NDArray[np.float64]],
        rng: np.random.Generator,
        budget: Budget,
        default: int,
    ) -> None:
        self._groups, self._noises, self._rng = groups, noises, rng
        self._budget, self._default = budget, default
        self._busy = 0.0  # seconds spent on steps

    def steps(self, order: I64) -> Iterator[Step]:
        """Yield steps whose orders are those of the rows."""
        for known in self._groups.known():
            if self._budget.steps == 0:
                return
            yield Step(1, known)
        state = self._state(order)
        if len(state.grouping.first) <= 2 and state.grouping.live == 1 and not self._groups.known():
            yield Step(0, order, converged=True)  # one group: all orders are alike
            return
        yield from self._reassigned(state)
        first = self._first(state)
        if self._budget.steps == 0:
            return
        starts = self._groups.starts(self._groups.finished(state.best), self._rng)
        if len(starts) > 1:
            starts = yield from self._tried(starts, first, dealt=self._groups.dealt)
            first *= _SECOND
            starts = yield from self._tried(starts[:2], first)
            state = self._state(starts[0])
        yield from self._rounds(state, first)

    def _tried(
        self, starts: list[I64], steps: int, *, dealt: bool = False
    ) -> Generator[Step, None, list[I64]]:
        """Do a round of little noise from each order; return what they led to, the best first."""
        found = []
        for start in starts:
            state = self._state(start)
            if dealt and start is not starts[0]:
                yield from self._reassigned(state)
            yield from self._round(state, _COOL * self._noises(self._budget.sweep(steps)))
            found.append(self._groups.finished(state.best))
        return sorted(found, key=self._groups.value, reverse=True)

    def _state(self, order: I64) -> Clusters:
        return Clusters(self._groups.grouping(order), order, self._rng)

    def _first(self, state: Clusters) -> int:
        """Return the steps of a first round."""
        return max(_LEAST_FIRST, min(_FIRST, int(_FIRST_WORK / state.work)))

    def _reassigned(self, state: Clusters) -> Iterator[Step]:
        """Deal all rows anew as long as that gains; a step each, of which the last is valued."""
        for count in range(1, _REASSIGNMENTS + 1):
            if self._budget.steps == 0:
                return
            gained = state.reassign()
            if not gained or count == _REASSIGNMENTS or self._budget.steps == 1:
                yield Step(1, self._groups.finished(state.best))
                return
            yield Step(1, state.best.copy(), 0.0)

    def _rounds(self, state: Clusters, first: int) -> Iterator[Step]:
        rounds = Rounds(first, min(self._default, int(_DEFAULT_WORK / state.work)))
        for length in rounds.lengths(self._budget, lambda: self._busy):
            current = self._groups.finished(state.best)
            if state.grouping.like(self._groups.grouping(current)):
                state.begin(current)
            else:
                state = self._state(current)
            yield from self._round(state, self._noises(length))

    def _round(self, state: Clusters, noises: NDArray[np.float64]) -> Iterator[Step]:
        steps = len(noises)
        sweep = max(1, min(_MOST_STEPS, int(_SWEEP / state.work)))
        # valuing what is found in between is a small part of the work
        looks = min(_LOOKS, int(steps * state.work / (_VALUING * state.levels.size)))
        looked = done = 0
        while done < steps:
            part = noises[done : done + sweep]
            begun = self._budget.used()
            state.anneal(part)
            self._busy += self._budget.used() - begun
            done += len(part)
            due = done * looks // steps > looked
            looked = done * looks // steps
            if done == steps:
                yield Step(len(part), self._groups.finished(state.best), planned=True)
            else:
                value = state.value if due else 0.0
                yield Step(len(part), state.best.copy(), value, planned=True)
