"""The balanced assignment against scipy's on copies of the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from permsearch.kernels.transport import balanced, transport


def best_total(benefit: NDArray[Any], capacity: int) -> float:
    """Return the largest total, by the Hungarian method on a copy of a group for each place."""
    copies = np.repeat(benefit.astype(np.float64), capacity, axis=1)
    rows, columns = linear_sum_assignment(copies, maximize=True)
    return float(copies[rows, columns].sum())


def total(benefit: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """Return what an assignment is worth, in float64."""
    return float(benefit[np.arange(len(labels)), labels].sum(dtype=np.float64))


@settings(max_examples=200, deadline=None)
@given(
    capacity=st.integers(1, 6),
    groups=st.integers(1, 7),
    spare=st.integers(0, 5),
    spread=st.sampled_from([1, 3, 1000]),
    offset=st.sampled_from([0, 1000, -7]),
    kind=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 999),
)
def test_no_assignment_is_worth_more(
    capacity: int, groups: int, spare: int, spread: int, offset: int, kind: type, seed: int
) -> None:
    """Full groups or not, ties or none, any sign: scipy's total, and no group is overfull."""
    items = max(1, capacity * groups - spare)
    rng = np.random.default_rng(seed)
    benefit = (rng.integers(-spread, spread + 1, (items, groups)) + offset).astype(kind)
    labels = balanced(benefit, capacity)
    assert np.bincount(labels, minlength=groups).max() <= capacity
    assert total(benefit, labels) == best_total(benefit, capacity)


@settings(max_examples=200, deadline=None)
@given(
    capacity=st.integers(1, 5),
    groups=st.integers(1, 7),
    spread=st.sampled_from([1, 1000]),
    seed=st.integers(0, 999),
)
def test_any_prices_are_a_right_start_and_the_last_ones_prove_it(
    capacity: int, groups: int, spread: int, seed: int
) -> None:
    """Whatever the first prices: scipy's total, which the dual value at the last prices equals."""
    rng = np.random.default_rng(seed)
    benefit = rng.integers(-spread, spread + 1, (capacity * groups, groups)).astype(np.float64)
    prices = rng.normal(0, spread, groups)
    labels = transport(benefit, capacity, prices)
    value = total(benefit, labels)
    dual = float((benefit - prices).max(axis=1).sum() + capacity * prices.sum())
    assert (np.bincount(labels, minlength=groups) == capacity).all()
    assert value == best_total(benefit, capacity)
    assert value == pytest.approx(dual, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_real_benefits_of_any_scale(scale: float) -> None:
    """Sums of hundreds of float64 scores, tiny or huge: scipy's total to 12 digits."""
    rng = np.random.default_rng(5)
    benefit = scale * (rng.random((240, 300)) @ (rng.random((300, 12)) < 0.25))
    labels = balanced(benefit, 20)
    assert (np.bincount(labels) == 20).all()
    assert total(benefit, labels) == pytest.approx(best_total(benefit, 20), rel=1e-12, abs=0)


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    spare=st.integers(0, 4),
    spread=st.sampled_from([1, 1000]),
    seed=st.integers(0, 999),
)
def test_groups_of_unequal_size(capacity: list[int], spare: int, spread: int, seed: int) -> None:
    """Every group has a capacity of its own: scipy's total on as many copies of each."""
    places = np.array(capacity)
    items = max(1, int(places.sum()) - spare)
    benefit = np.random.default_rng(seed).integers(-spread, spread + 1, (items, len(places))) * 1.0
    labels = balanced(benefit, places)
    copies = benefit.repeat(places, axis=1)
    rows, columns = linear_sum_assignment(copies, maximize=True)
    assert (np.bincount(labels, minlength=len(places)) <= places).all()
    assert total(benefit, labels) == copies[rows, columns].sum()


def test_zero_benefits_are_assigned() -> None:
    """A matrix of zeros, as dead rows give, fills every group."""
    for capacity, groups in ((1, 1), (3, 1), (1, 9), (4, 16)):
        labels = balanced(np.zeros((capacity * groups, groups)), capacity)
        assert (np.bincount(labels) == capacity).all()


def test_too_many_items_are_told() -> None:
    """More items than places is an error that names both."""
    with pytest.raises(ValueError, match="7 items do not fit into 2 groups of 3"):
        balanced(np.zeros((7, 2)), 3)
