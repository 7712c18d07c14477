"""Swap descent ends where provably no swap gains, for any N:M, in one table or in blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch.testing as pt
from permsearch import instances
from permsearch.kernels.value import retained
from permsearch.result import Status
from permsearch.solve import single
from permsearch.solvers import _swap_descent
from permsearch.solvers.swap import Swap, polish
from permsearch.stop import MaxSteps


def kept(columns: NDArray[Any], order: NDArray[np.int64], n: int, m: int) -> float:
    """Return the retained score of an order, by sorting."""
    groups = columns[order].astype(np.float64).reshape(-1, m, columns.shape[1])
    return float(np.sort(groups, axis=1)[:, m - n :].sum())


def best_swap(columns: NDArray[Any], order: NDArray[np.int64], n: int, m: int) -> float:
    """Return the gain of the best swap of two columns, by trying all."""
    present = kept(columns, order, n, m)
    best = -np.inf
    for p, q in itertools.combinations(range(len(order)), 2):
        if p // m != q // m:
            other = order.copy()
            other[[p, q]] = other[[q, p]]
            best = max(best, kept(columns, other, n, m) - present)
    return best


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 2), (2, 4), (1, 4), (3, 4), (1, 3), (4, 8), (2, 5)]),
    groups=st.integers(2, 5),
    rows=st.integers(1, 12),
    levels=st.sampled_from([1, 2, 5, 10_000]),
)
def test_no_swap_gains_at_the_end(
    seed: int, shape: tuple[int, int], groups: int, rows: int, levels: int
) -> None:
    """After polishing, trying every swap finds none that gains, with ties and zeros too."""
    n, m = shape
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, levels, (groups * m, rows)) / levels).astype(np.float32)
    start = rng.permutation(groups * m)
    order = polish(columns, start, n, m)
    assert sorted(order) == list(range(groups * m))
    assert kept(columns, order, n, m) >= kept(columns, start, n, m)
    mean = kept(columns, order, n, m) / groups
    assert best_swap(columns, order, n, m) <= 1.0001e-6 * mean + 1e-12


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "4:8", "2:3"])
def test_screening_and_kicks_end_one_swap_optimal(pattern: str) -> None:
    """8-bit screening and kicks change the way, not the promise at its end."""
    weight = instances.gaussian(30, 72, seed=3)
    result = Swap(kicks=4).solve(single(weight, pattern), seed=2)
    n, m = map(int, pattern.split(":"))
    columns = np.abs(weight.T)
    assert result.status is Status.CONVERGED
    assert best_swap(columns, result.cols, n, m) <= 1.001e-6 * result.score / (72 / m)


def test_polish_leaves_its_argument_alone() -> None:
    """The order passed in is not written to, and polishing twice changes nothing more."""
    columns = np.random.default_rng(1).random((32, 20), dtype=np.float32)
    start = np.arange(32)
    once = polish(columns, start, 2, 4)
    np.testing.assert_array_equal(start, np.arange(32))
    np.testing.assert_array_equal(polish(columns, once, 2, 4), once)
    assert retained(columns, once, 2, 4) > retained(columns, start, 2, 4)


def test_blocks_of_groups_end_one_swap_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table for 16 columns only, 44 columns still end where no swap gains."""
    monkeypatch.setattr(_swap_descent, "_MOST_COLUMNS", 16)
    columns = np.random.default_rng(2).random((44, 15), dtype=np.float32)
    order = polish(columns, np.arange(44), 2, 4)
    assert sorted(order) == list(range(44))
    assert best_swap(columns, order, 2, 4) <= 1.001e-6 * retained(columns, order, 2, 4) / 11


def test_kicks_never_lose() -> None:
    """More kicks retain no less, and the same seed gives the same order."""
    problem = single(instances.laplace(40, 64, seed=4), "2:4")
    scores = [Swap(kicks=k).solve(problem, seed=5).score for k in (0, 5, 20)]
    assert scores == sorted(scores)
    again = [Swap(kicks=5).solve(problem, seed=5).cols for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.parametrize("pattern", ["2:4", "8:32"])
def test_power_of_two_scale_changes_no_order(pattern: str) -> None:
    """Scaling the scores by 2**20 or 2**-20 leaves the order as it is."""
    weight = instances.student_t(9, 96, seed=6)
    plain = Swap(3).solve(single(weight, pattern), seed=1)
    for exponent in (20, -20):
        scaled = Swap(3).solve(single(np.ldexp(weight, exponent), pattern), seed=1)
        np.testing.assert_array_equal(plain.cols, scaled.cols)


def test_stopping_early_keeps_what_was_gained() -> None:
    """Two passes are two steps, already better than the start."""
    problem = single(instances.gaussian(30, 64, seed=7), "2:4")
    result = Swap().solve(problem, stop=MaxSteps(2))
    assert result.steps == 2
    assert result.score > result.baseline
    assert result.status is Status.STOPPED


def test_negative_kicks_are_refused() -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match="-2"):
        Swap(-2)


@pytest.mark.parametrize("name", pt.tiny_problems())
def test_conformance(name: str) -> None:
    """The solver keeps every promise of the protocol on every tiny problem."""
    pt.check_solver(Swap(), pt.tiny_problems()[name])


def test_blocks_claim_what_the_order_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched in blocks, every report's value is that of its order, so that the best is kept."""
    monkeypatch.setattr(_swap_descent, "_MOST_COLUMNS", 16)
    columns = np.random.default_rng(3).random((44, 15), dtype=np.float32)
    for step in _swap_descent.descend(columns, np.arange(44), 2, 4):
        assert step.value == pytest.approx(retained(columns, step.order, 2, 4))
