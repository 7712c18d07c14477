"""How `shuffle` splits a budget: into ever longer rounds, of which the last one fills it.

The sibling for blocks and transposable patterns, `permsearch.solvers._axis_rounds`, is not the
same: this one does its first round wherever more than that is left, the other only where seven
times as much is left after it, and this one times steps apart from the valuing of what they found.
One for both would change what the same number of steps finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from permsearch.solvers.run import Budget

_FINAL = 8  # a round is begun while it leaves at least seven times its own length


@dataclass(frozen=True, slots=True)
class Rounds:
    """Rounds of `first`, then `growth` times as many steps each, then one that fills the budget.

    How a number of steps splits follows from it alone: the first round, unless it is all; then
    each next one while it leaves at least seven times its own length; then the rest. Where time
    is limited, the speed of the round before says how much is left, and the last round's length
    is fixed when it begins: so many steps repeat the run.

    Attributes
    ----------
    first
        Steps of the first round.
    default
        Steps in all where nothing limits them.
    growth
        How much longer each round is than the one before.
    speed_up
        How much faster the last round is expected to be than the one before it.
    """

    first: int
    default: int
    growth: int = 4
    speed_up: float = 1.0

    def lengths(self, budget: Budget, busy: Callable[[], float]) -> Iterator[int]:
        """Yield the length of every round; ask for the next one when the last is done.

        Parameters
        ----------
        budget
            Of the piece.
        busy
            Returns the seconds spent on steps so far, on the clock of ``budget.used``; the rest
            went into valuing what they found, which the last round needs as well.
        """
        steps = budget.steps if budget.limited else self.default - budget.done
        if steps is not None and steps <= self.first:
            yield max(0, steps)
            return
        size, least = self.first, 1
        while True:
            start, used = busy(), budget.used()
            yield size
            spent = max(busy() - start, 1e-9)
            valuing = budget.used() - used - spent
            seconds = budget.seconds
            share = 1 - valuing / seconds if seconds else 0.0
            rate = self.speed_up * size / spent * max(0.0, share)
            left = budget.left(rate, max(0, self.default - budget.done))
            size *= self.growth
            if left < _FINAL * size:
                break
            least = (_FINAL - 1) * size
        yield max(least, left)
