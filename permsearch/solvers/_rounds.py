"""Rounds of annealing: how a budget is split, and the finish in float.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.value import retained
from permsearch.solvers._annealing import Chain
from permsearch.solvers._exact_assignment import assign_exactly, finishing_work
from permsearch.solvers._swap_descent import descend
from permsearch.solvers.run import Budget, Step
from permsearch.stack import Stack

I64 = NDArray[np.int64]

_SWEEP = 1.5e9  # entries priced in a sweep, about 10 ms
_MOST_STEPS = 256  # in a sweep
_FIRST = 64  # steps of the first round, fewer where a step is long
_FIRST_WORK = 1e10  # entries
_GROWTH = 4
_FINAL = 8  # a round is begun while it leaves at least seven times its own length
# Rounds get faster with their length: the start costs, and a cold order is quick to search, the
# more so the more alike the columns. Of short rounds only the colder half is timed.
_LONG = 512
_SPEED_UP_SHORT = 1.35
_SPEED_UP = 1.1
_PROOF = 48  # all swaps are priced exactly where a run prices so many times as many entries
_QUICK = 4e9  # entries: a descent so short ends an annealing by swaps
_PER_SWAP = 64  # entries that could be priced while a swap's price is looked at
_FLOAT_RATE = 1.2e10  # entries a second in float32, with what goes along
_OVERHEAD = 0.002  # seconds


@dataclass(slots=True)
class _Leader:
    """The best order of a chain so far, by its exact value in the stack's own units."""

    order: I64
    value: float
    mark: int

    @classmethod
    def of(cls, chain: Chain) -> _Leader:
        return cls(chain.best.copy(), _value(chain.stack, chain.best), chain.mark)

    def look(self, chain: Chain) -> None:
        """Value the chain's best in float64 if it has changed."""
        if chain.mark > self.mark:
            self.mark = chain.mark
            self.offer(chain.stack, chain.best)

    def offer(self, stack: Stack, order: I64) -> None:
        value = _value(stack, order)
        if value > self.value:
            self.order, self.value = order.copy(), value


def _value(stack: Stack, order: I64) -> float:
    return float(retained(stack.columns, order, stack.n, stack.m))


def run_rounds(
    chain: Chain,
    budget: Budget,
    schedule: Callable[[int, float], NDArray[np.float64]],
    default: int,
) -> Iterator[Step]:
    """Yield after every sweep of ever longer rounds; the last one fills the budget.

    How a number of steps splits into rounds follows from it alone: the first round, unless it is
    all; then each next one while it leaves at least seven times its own length; then the rest.
    """
    plan = _Plan(chain, budget, default)

    def noises(steps: int) -> NDArray[np.float64]:
        return schedule(steps, chain.steadiness)

    leader = _Leader.of(chain)
    if not budget.timed and plan.left(0.0) <= plan.first:
        yield from _last_round(chain, leader, noises, plan.left(0.0), plan)
        return
    size, least = plan.first, 1
    while True:
        skip = size // 2 if size < _LONG else 0
        done, counted, begun = 0, 0, budget.used()
        for step in _round(chain, leader, noises(size)):
            done += step.steps
            if done <= skip:
                counted, begun = done, budget.used()
            yield step
        rate = (size - counted) / max(budget.used() - begun, 1e-9)
        speed_up = _SPEED_UP_SHORT if size < _LONG else _SPEED_UP
        left = plan.left(rate * speed_up**chain.steadiness)
        size *= _GROWTH
        if left < _FINAL * size:
            break
        least = (_FINAL - 1) * size
    yield from _last_round(chain, leader, noises, max(least, left), plan)


def _sweeps(chain: Chain, noises: NDArray[np.float64]) -> Iterator[int]:
    """Do a round; yield the length of each sweep after it."""
    size = max(1, min(_MOST_STEPS, len(noises) // 4, int(_SWEEP / chain.effort)))
    for first in range(0, len(noises), size):
        part = noises[first : first + size]
        chain.sweep(part)
        yield len(part)


def _round(chain: Chain, leader: _Leader, noises: NDArray[np.float64]) -> Iterator[Step]:
    for steps in _sweeps(chain, noises):
        leader.look(chain)
        yield Step(steps, leader.order, leader.value, planned=True)


def _last_round(
    chain: Chain,
    leader: _Leader,
    noises: Callable[[int], NDArray[np.float64]],
    length: int,
    plan: _Plan,
) -> Iterator[Step]:
    """Like a round, but the step that ends it brings the order finished in float32."""
    done = 0
    for steps in _sweeps(chain, noises(length)):
        leader.look(chain)
        done += steps
        proven = done == length and _finish(leader, plan)
        yield Step(steps, leader.order, leader.value, converged=proven, planned=True)


def _finish(leader: _Leader, plan: _Plan) -> bool:
    """Improve the best order in float; return whether no swap improves it."""
    stack, order = plan.chain.stack, leader.order.copy()
    if plan.affords_proof(plan.budget.done):
        for step in descend(stack.columns, order, stack.n, stack.m, screen=False):
            order = step.order
        leader.order = order
        return True
    if plan.chain.assigns:
        leader.offer(stack, assign_exactly(stack, order))
    return False


@dataclass(slots=True)
class _Plan:
    """How long rounds may be."""

    chain: Chain
    budget: Budget
    default: int

    @property
    def first(self) -> int:
        """Length of the first round."""
        return max(_FINAL, min(_FIRST, int(_FIRST_WORK / self.chain.effort)))

    def left(self, rate: float) -> int:
        """Return how many steps are left, at a rate of steps a second where time is limited."""
        steps, seconds = self.budget.steps, self.budget.seconds
        if steps is None:
            steps = self.default - self.budget.done
        elif seconds is None:
            return steps
        if seconds is None:
            return max(0, steps)
        fits = int(rate * max(0.0, seconds - self._reserve(rate * seconds)))
        return fits if self.budget.steps is None else min(fits, steps)

    def affords_proof(self, steps: float) -> bool:
        """Return whether a descent over all swaps is a small part of a run of so many steps."""
        if not self.chain.assigns:
            count = len(self.chain.stack.columns)
            return count**2 * (self._rows + _PER_SWAP) < _QUICK
        return steps * self.chain.work >= _PROOF * self._swaps

    def _reserve(self, steps: float) -> float:
        """Return the seconds to keep for the finish, about."""
        if self.affords_proof(self.budget.done + steps):
            return _OVERHEAD + self._swaps / _FLOAT_RATE
        m = self.chain.stack.m
        entries = finishing_work(len(self.chain.stack.columns) // m, m, self._rows)
        return _OVERHEAD + entries / _FLOAT_RATE

    @property
    def _rows(self) -> int:
        return len(self.chain.stack.columns.T)

    @property
    def _swaps(self) -> float:
        """Entries priced to price all swaps."""
        columns = self.chain.stack.columns
        return float(len(columns) * columns.size)
