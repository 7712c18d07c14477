"""Rounds that fill a budget: steps alone say how they split."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.solvers._shuffle_rounds import Rounds
from permsearch.solvers.run import Budget, Run

PROBLEM = ps.single(np.ones((4, 4), np.float32), "2:4")


def lengths(rounds: Rounds, stop: ps.StoppingCriterion, seconds: float = 0.0) -> list[int]:
    """Return the rounds of a run in which a step takes some seconds, to believe its watch."""
    run = Run.begin(PROBLEM, None, stop)
    budget = Budget(run, stop.horizon.steps)
    found: list[int] = []

    def busy() -> float:
        return seconds * sum(found)

    for length in rounds.lengths(budget, busy):
        found.append(length)
        run.step += length
        budget.done += length
    return found


@given(steps=st.integers(0, 100_000), first=st.integers(1, 300))
def test_steps_are_used_up(steps: int, first: int) -> None:
    """Rounds grow, the last takes the rest, and it is the longest by far or the only one."""
    found = lengths(Rounds(first, 20_000), ps.MaxSteps(steps))
    assert sum(found) == steps
    assert found[:-1] == [first * 4**k for k in range(len(found) - 1)]
    assert len(found) == 1 or steps <= first or found[-1] >= 7 * found[-2] or len(found) == 2


def test_without_a_limit_the_default_is_used_up() -> None:
    """Where nothing limits a run it does its default number of steps."""
    assert sum(lengths(Rounds(64, 20_000), ps.Never())) == 20_000


@given(seconds=st.floats(0.001, 5), cost=st.floats(1e-6, 1e-2), first=st.integers(1, 200))
def test_time_makes_rounds_that_its_steps_repeat(seconds: float, cost: float, first: int) -> None:
    """However fast the steps are: as many steps split in the same way."""
    rounds = Rounds(first, 20_000)
    timed = lengths(rounds, ps.MaxSeconds(seconds), cost)
    assert lengths(rounds, ps.MaxSteps(sum(timed))) == timed
