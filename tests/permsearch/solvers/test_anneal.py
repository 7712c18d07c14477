"""Annealing: rounds that follow from the number of steps alone, a finish in float, both methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permsearch.testing as pt
from permsearch import instances
from permsearch.kernels.value import retained
from permsearch.result import SearchResult, Status
from permsearch.solve import single
from permsearch.solvers.anneal import Anneal
from permsearch.solvers.swap import Swap, polish
from permsearch.stack import Stack
from permsearch.stop import MaxCpuSeconds, MaxSteps


def orders(result: SearchResult) -> list[list[int]]:
    """Return the orders of a result as lists."""
    return [order.tolist() for order in result.solution.values()]


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "1:2", "4:8", "8:16", "3:5"])
@pytest.mark.parametrize("method", ["auto", "assignment", "swap"])
def test_both_methods_keep_the_promises(pattern: str, method: str) -> None:
    """Any N:M by either method: a legal result that is worth what it says."""
    width = 80 if pattern in {"8:16", "3:5"} else 48
    problem = single(instances.gaussian(40, width, seed=1), pattern)
    result = Anneal(method=method).solve(problem, stop=MaxSteps(90))  # type: ignore[arg-type]
    pt.check_result(result, problem)
    assert result.steps == 90
    assert result.score > result.baseline


@settings(max_examples=25, deadline=None)
@given(steps=st.integers(1, 700), seed=st.integers(0, 50))
def test_steps_are_done_exactly_and_repeat(steps: int, seed: int) -> None:
    """Any number of steps is used up, and gives the same order again."""
    problem = single(instances.gaussian(24, 32, seed=seed), "2:4")
    first, second = (Anneal().solve(problem, stop=MaxSteps(steps), seed=seed) for _ in range(2))
    assert first.steps == steps
    assert orders(first) == orders(second)


@pytest.mark.parametrize("method", ["assignment", "swap"])
def test_a_run_limited_in_time_is_repeated_by_its_steps(method: str) -> None:
    """The schedule follows from the number of steps alone, whatever the clock said."""
    problem = single(instances.gaussian(96, 64, seed=3), "2:4")
    solver = Anneal(method=method)  # type: ignore[arg-type]
    solver.solve(problem, stop=MaxSteps(700))  # compiled before the clock starts
    for seconds in (0.01, 0.1, 0.3):
        timed = solver.solve(problem, stop=MaxCpuSeconds(seconds), seed=1)
        again = solver.solve(problem, stop=MaxSteps(timed.steps), seed=1)
        assert again.steps == timed.steps
        assert orders(again) == orders(timed)


def test_a_long_run_ends_where_no_swap_gains() -> None:
    """A converged result is left alone by a swap descent, and beats one from the start."""
    weight = instances.gaussian(96, 64, seed=4)
    problem = single(weight, "2:4")
    result = Anneal().solve(problem, stop=MaxSteps(3000))
    assert result.status is Status.CONVERGED
    (order,) = result.solution.values()
    columns = np.ascontiguousarray(np.abs(weight).T.astype(np.float32))
    better = retained(columns, polish(columns, order, 2, 4), 2, 4)
    assert better <= retained(columns, order, 2, 4) * (1 + 1e-6)
    assert result.score > Swap().solve(problem).score


def test_more_steps_are_worth_more() -> None:
    """Ten times the steps keep more, on average over seeds."""
    problem = single(instances.gaussian(64, 96, seed=5), "2:4")
    short, long = (
        np.mean([Anneal().solve(problem, stop=MaxSteps(k), seed=s).score for s in range(4)])
        for k in (60, 1200)
    )
    assert long > short


def test_a_planted_optimum_is_found() -> None:
    """A matrix that fits the pattern when shuffled back keeps nearly everything."""
    rng = np.random.default_rng(6)
    weight = np.zeros((128, 32))
    for row in weight:
        for group in row.reshape(-1, 4):
            group[rng.choice(4, 2, replace=False)] = 1 + rng.random(2)
    problem = single(weight[:, rng.permutation(32)], "2:4")
    result = Anneal().solve(problem, stop=MaxSteps(4000))
    assert result.score == pytest.approx(problem.total)
    assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_columns_are_no_trouble(value: float) -> None:
    """All zeros and all ones: nothing to gain, nothing breaks."""
    problem = single(np.full((5, 16), value), "2:4")
    for method in ("assignment", "swap"):
        solver = Anneal(method=method)
        assert solver.solve(problem, stop=MaxSteps(100)).score == problem.total / 2


def test_without_a_budget_there_is_a_default() -> None:
    """A stack searched without limits gets the default number of steps."""
    assert Anneal().default_stop == MaxSteps(4000)
    problem = single(instances.gaussian(8, 16, seed=0), "2:4")
    assert Anneal().solve(problem).steps == 4000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hot": 0.1, "cold": 0.2}, "cold=0.2"),
        ({"cold": -1.0}, "cold=-1.0"),
        ({"tail": 1.0}, "tail"),
        ({"method": "tabu"}, "tabu"),
    ],
)
def test_bad_options_are_named(options: dict[str, float], message: str) -> None:
    """An option out of range is refused with its value."""
    with pytest.raises(ValueError, match=message):
        Anneal(**options)  # type: ignore[arg-type]


def test_stacks_of_two_groups_and_one_row() -> None:
    """The smallest stack that can be searched."""
    columns = np.array([[0.9], [0.8], [0.1], [0.2]], np.float32)
    stack = Stack(columns, 1, 2, 1.0)
    problem = single(columns.T, "1:2")
    result = Anneal().solve(problem, stop=MaxSteps(20))
    (order,) = result.solution.values()
    assert stack.total(order.astype(np.int64)) == pytest.approx(1.7)
