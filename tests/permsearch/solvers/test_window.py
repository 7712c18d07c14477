"""The stripe-group search: local optima of all re-splits, the best state returned."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import permsearch.testing as pt
from permsearch import instances
from permsearch.result import Status
from permsearch.solve import single
from permsearch.solvers import window
from permsearch.solvers.window import Window
from permsearch.stop import MaxSteps


def group_value(columns: NDArray[Any], members: Any, n: int) -> float:
    """Return what a group keeps, by sorting."""
    return float(np.sort(columns[list(members)].astype(np.float64), axis=0)[-n:].sum())


def best_resplit(columns: NDArray[Any], order: NDArray[np.int64], n: int, m: int) -> float:
    """Return the gain of the best re-split of two groups, by trying all."""
    groups = order.reshape(-1, m)
    best = 0.0
    for a, b in itertools.combinations(groups, 2):
        both = [*a, *b]
        present = group_value(columns, a, n) + group_value(columns, b, n)
        for first in itertools.combinations(both, m):
            rest = [c for c in both if c not in first]
            value = group_value(columns, first, n) + group_value(columns, rest, n)
            best = max(best, value - present)
    return best


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "3:4", "1:2", "1:3", "2:5"])
def test_no_resplit_of_two_groups_gains_at_the_end(pattern: str) -> None:
    """The result is a local optimum of all re-splits of two groups."""
    n, m = map(int, pattern.split(":"))
    weight = instances.gaussian(20, 6 * m, seed=1)
    result = Window().solve(single(weight, pattern))
    assert result.status is Status.CONVERGED
    limit = 1.001e-6 * result.score / 6
    assert best_resplit(np.abs(weight.T), result.cols, n, m) <= limit


@pytest.mark.parametrize(("columns", "count", "pattern"), [(8, 8, "2:4"), (12, 12, "2:4")])
@pytest.mark.parametrize("seed", range(4))
def test_a_window_over_everything_is_exact(
    columns: int, count: int, pattern: str, seed: int
) -> None:
    """A window that holds all columns finds the optimum of all groupings."""
    problem = single(instances.lognormal_columns(9, count, seed=seed), pattern)
    best, _ = pt.best_by_enumeration(problem)
    assert Window(columns).solve(problem).score == pytest.approx(best, rel=2e-6)


def test_wider_windows_are_local_optima_of_pairs_too() -> None:
    """A local optimum over three groups is one over two groups."""
    weight = instances.gaussian(20, 32, seed=2)
    result = Window(12).solve(single(weight, "2:4"))
    assert best_resplit(np.abs(weight.T), result.cols, 2, 4) <= 1.001e-6 * result.score / 8


def test_escapes_return_the_best_state() -> None:
    """Going on from local optima never ends below the first, and repeats with the seed."""
    problem = single(instances.laplace(16, 48, seed=3), "2:4")
    plain = Window().solve(problem, seed=4)
    bold = [Window(escapes=30).solve(problem, seed=4) for _ in range(2)]
    assert bold[0].score >= plain.score
    np.testing.assert_array_equal(bold[0].cols, bold[1].cols)


def test_many_wide_windows_are_searched_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the limit on sets the halves are searched first, and pairs of groups at the end."""
    monkeypatch.setattr(window, "_MOST_SETS", 10)
    weight = instances.gaussian(12, 48, seed=5)
    result = Window(12, escapes=1).solve(single(weight, "2:4"), seed=1)
    assert sorted(result.cols) == list(range(48))
    assert best_resplit(np.abs(weight.T), result.cols, 2, 4) <= 1.001e-6 * result.score / 12


def test_steps_are_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short sweeps follow the same path as long ones, and steps are never overrun."""
    problem = single(instances.gaussian(12, 40, seed=6), "2:4")
    whole = Window().solve(problem)
    monkeypatch.setattr(window, "_SWEEP", 5000)
    parts = Window().solve(problem)
    np.testing.assert_array_equal(whole.cols, parts.cols)
    assert whole.steps == parts.steps
    assert whole.steps >= 45
    assert Window().solve(problem, stop=MaxSteps(50)).steps == 50


@pytest.mark.parametrize("exponent", [20, -20])
def test_power_of_two_scale_changes_no_order(exponent: int) -> None:
    """Scaling the scores by a power of two leaves the order as it is."""
    weight = instances.student_t(9, 48, seed=7)
    plain = Window(escapes=3).solve(single(weight, "2:4"), seed=1)
    scaled = Window(escapes=3).solve(single(np.ldexp(weight, exponent), "2:4"), seed=1)
    np.testing.assert_array_equal(plain.cols, scaled.cols)


def test_groups_too_large_are_refused_with_a_way_out() -> None:
    """Two groups of nine have 24,310 re-splits: refused, naming the number and a solver."""
    reason = Window().supports(single(np.ones((2, 18), np.float32), "2:9"))
    assert reason is not None
    assert "24310" in reason
    assert "swap" in reason


@pytest.mark.parametrize(("columns", "escapes"), [(1, 0), (8, -1)])
def test_bad_options_are_refused(columns: int, escapes: int) -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match=r"got (1|-1)"):
        Window(columns, escapes)


@pytest.mark.parametrize("name", pt.tiny_problems())
def test_conformance(name: str) -> None:
    """The solver keeps every promise of the protocol on every tiny problem."""
    pt.check_solver(Window(escapes=2), pt.tiny_problems()[name])
