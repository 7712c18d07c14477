"""The portfolio on problems that need several methods."""

from __future__ import annotations

import time

import numpy as np
import pytest

import permsearch as ps
import permsearch.testing as pt


def mixed(first: str, second: str, shape: tuple[int, int] = (32, 64)) -> ps.Problem:
    """Return two weights with axes of their own."""
    weights = [np.abs(ps.instances.gaussian(*shape, seed=seed)) for seed in (1, 2)]
    rows = None if first == "2:4" else "rows"
    terms = (
        ps.Term(weights[0], first, rows, "cols", "first"),
        ps.Term(weights[1], second, "other rows", "other cols", "second"),
    )
    names = [name for term in terms for name in (term.rows, term.cols) if name is not None]
    sizes = {name: ps.Free(shape["cols" in name]) for name in names}
    return ps.Problem(sizes, terms)


@pytest.mark.parametrize(
    ("first", "second"),
    [("2:4", "transposable:2:4"), ("2:4", "4:2:8"), ("4:2:8", "vector:4@0.5")],
)
def test_cheap_steps_of_one_method_set_no_pace_for_dear_ones(first: str, second: str) -> None:
    """A limit in seconds holds where a step of one method costs hundreds of another's."""
    problem = mixed(first, second)
    ps.solve(problem, stop=ps.MaxSeconds(0.01))
    began = time.process_time()
    timed = ps.solve(problem, stop=ps.MaxSeconds(0.1))
    assert time.process_time() - began < 10  # minutes, by the steps of the cheaper method
    pt.check_result(timed, problem)
    again = ps.solve(problem, stop=ps.MaxSteps(timed.steps))
    assert again.score == timed.score
    for name, order in again.solution.items():
        assert np.array_equal(order, timed.solution[name])


@pytest.mark.parametrize("steps", [0, 1, 7, 4000])
def test_no_more_steps_than_were_granted(steps: int) -> None:
    """Steps of all methods together stay within the limit, and repeat the orders."""
    problem = mixed("2:4", "block:4x4@0.5", (8, 32))
    found = ps.solve(problem, stop=ps.MaxSteps(steps))
    pt.check_result(found, problem)
    assert found.steps <= steps
    again = ps.solve(problem, stop=ps.MaxSteps(found.steps))
    assert again.score == found.score


def test_a_method_that_is_done_at_once_leaves_steps_to_others() -> None:
    """Columns solved by enumeration set no pace: the other weight is searched as long as it may."""
    small = ps.Term(np.abs(ps.instances.gaussian(4, 8, seed=1)), "2:4", cols="small", name="small")
    weight = np.abs(ps.instances.gaussian(64, 64, seed=2))
    large = ps.Term(weight, "block:4x4@0.25", "rows", "cols", "large")
    domains = {"small": ps.Free(8), "rows": ps.Free(64), "cols": ps.Free(64)}
    found = ps.solve(ps.Problem(domains, (small, large)), stop=ps.MaxSteps(200_000))
    alone = ps.search(weight, "block:4x4@0.25", stop=ps.MaxSteps(200))
    assert large.retained(found.solution) > 0.98 * alone.score


def test_the_trace_does_not_fall_where_another_method_takes_over() -> None:
    """What tiles of HiNM have gained counts on while another weight is searched."""
    problem = mixed("4:2:8", "hinm:4@0.5:2:4", (16, 16))
    found = ps.solve(problem, stop=ps.MaxSteps(4000))
    pt.check_result(found, problem)
    assert found.trace[-1].score == pytest.approx(found.score)


@pytest.mark.parametrize("power", [3, 0, -4])
def test_a_proven_part_bounds_the_whole_at_any_scale(power: int) -> None:
    """What is proven of one part is no proof for the others, however small or large the scores."""
    heads, free = (np.ldexp(np.abs(ps.instances.gaussian(24, n, seed=n)), power) for n in (24, 48))
    problem = ps.Problem(
        {"heads": ps.Segments((12, 12)), "free": ps.Free(48)},
        [ps.Term(heads, "2:4", cols="heads"), ps.Term(free, "2:4", cols="free")],
    )
    short = ps.solve(problem, stop=ps.MaxSteps(40))
    best = ps.solve(problem, "anneal", stop=ps.MaxSteps(4000), start=short.solution)
    assert best.score > short.score
    assert short.bound >= best.score
    assert short.status is not ps.Status.OPTIMAL


@pytest.mark.parametrize(
    ("pattern", "shape", "methods"),
    [
        ("2:4", (8, 16), ("exhaustive",)),
        ("1:2", (8, 32), ("matching",)),
        ("2:4", (8, 32), ("anneal",)),
        ("2:4", (8, 4), ()),
        ("block:4x4@0.5", (8, 32), ("blocks",)),
        ("unstructured@0.5", (8, 32), ()),
    ],
)
def test_a_result_tells_the_methods(
    pattern: str, shape: tuple[int, int], methods: tuple[str, ...]
) -> None:
    """What was chosen stands in the details and in the line that a result prints."""
    found = ps.search(ps.instances.gaussian(*shape, seed=0), pattern, stop=ps.MaxSteps(2))
    assert found.details.get("methods", ()) == methods
    assert ("Auto() by" in str(found)) == bool(methods)
    assert all(name in str(found) for name in methods)


def test_several_methods_are_told_in_their_order() -> None:
    """Of a problem with two methods both are named, the one of cheaper steps first."""
    found = ps.solve(mixed("2:4", "block:4x4@0.5", (8, 32)), stop=ps.MaxSteps(4))
    assert found.details["methods"] == ("anneal", "blocks")
