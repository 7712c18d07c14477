"""Dealing by mass and slot sweeps: the serpentine, exact slots, a local optimum at the end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import permsearch.testing as pt
from permsearch import instances
from permsearch.kernels.value import retained
from permsearch.result import Status
from permsearch.solve import single
from permsearch.solvers.deal import Deal, dealt, reassigned
from permsearch.stack import Stack


def test_serpentine() -> None:
    """The heaviest go one to a group, the next ones back, so that no group is favoured."""
    mass = np.array([12.0, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1])
    groups = dealt(mass, 4).reshape(3, 4)
    np.testing.assert_array_equal(mass[groups], [[12, 7, 6, 1], [11, 8, 5, 2], [10, 9, 4, 3]])


def test_equal_masses_are_dealt_in_their_order() -> None:
    """Ties do not depend on the sorting algorithm."""
    np.testing.assert_array_equal(dealt(np.ones(6), 3).reshape(2, 3), [[0, 3, 4], [1, 2, 5]])


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 2), (2, 4), (3, 4), (1, 3), (4, 8)]),
    slot=st.integers(0, 1),
    levels=st.sampled_from([2, 10_000]),
)
def test_a_slot_is_assigned_exactly(
    seed: int, shape: tuple[int, int], slot: int, levels: int
) -> None:
    """No other assignment of the slot's columns to the groups keeps more."""
    n, m = shape
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, levels, (4 * m, 5)) / levels).astype(np.float32)
    order = rng.permutation(4 * m)
    found = reassigned(Stack(columns, n, m, 1.0), order, slot)
    best = 0.0
    for choice in itertools.permutations(range(4)):
        groups = order.reshape(4, m).copy()
        groups[:, slot] = groups[list(choice), slot]
        best = max(best, retained(columns, groups.ravel(), n, m))
    assert retained(columns, found, n, m) == pytest.approx(best, abs=1e-5)


def test_sweeps_limit_the_steps() -> None:
    """One sweep is one step for each slot; without a limit it ends when no slot gains."""
    problem = single(instances.gaussian(20, 48, seed=1), "2:4")
    one, full = Deal(sweeps=1).solve(problem), Deal().solve(problem)
    assert one.steps == 4
    assert full.status is Status.CONVERGED
    assert full.score >= one.score > one.baseline


def test_a_better_start_is_kept() -> None:
    """Dealing anew never returns less than the start."""
    problem = single(instances.gaussian(20, 24, seed=2), "2:4")
    good = Deal().solve(problem)
    again = Deal(sweeps=0).solve(problem, start={"cols": good.cols})
    assert again.score == good.score


@pytest.mark.parametrize("exponent", [20, -20])
def test_power_of_two_scale_changes_no_order(exponent: int) -> None:
    """Scaling the scores by a power of two leaves the order as it is."""
    weight = instances.student_t(9, 48, seed=3)
    plain = Deal().solve(single(weight, "2:4"))
    scaled = Deal().solve(single(np.ldexp(weight, exponent), "2:4"))
    np.testing.assert_array_equal(plain.cols, scaled.cols)


def test_negative_sweeps_are_refused() -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match="-3"):
        Deal(sweeps=-3)


@pytest.mark.parametrize("name", pt.tiny_problems())
def test_conformance(name: str) -> None:
    """The solver keeps every promise of the protocol on every tiny problem."""
    pt.check_solver(Deal(), pt.tiny_problems()[name])
