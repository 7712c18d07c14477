"""The warm-started assignment against scipy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from permsearch.kernels.jv import assign, assignment

Costs = NDArray[np.int32]


def cheapest(cost: Costs) -> int:
    """Return the cost of a cheapest assignment, by scipy."""
    rows, columns = linear_sum_assignment(cost)
    return int(cost[rows, columns].sum(dtype=np.int64))


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 30),
    spread=st.sampled_from([1, 2, 9, 1000, 1 << 24]),
    seed=st.integers(0, 999),
)
def test_assignment_is_cheapest(n: int, spread: int, seed: int) -> None:
    """From a cold start, many ties or none: a permutation, and scipy's cost."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(-spread, spread, (n, n)).astype(np.int32)
    columns = assignment(cost)
    assert sorted(columns) == list(range(n))
    assert int(cost[np.arange(n), columns].sum(dtype=np.int64)) == cheapest(cost)


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 30),
    spread=st.sampled_from([1, 2, 1000, 1 << 24]),
    seed=st.integers(0, 999),
)
def test_any_warm_start_ends_in_optimal_duals(n: int, spread: int, seed: int) -> None:
    """Whatever the first duals: the dual value equals the cost and no reduced cost is negative."""
    rng = np.random.default_rng(seed)
    cost = rng.integers(-spread, spread, (n, n)).astype(np.int32)
    v = rng.integers(-spread, spread, n).astype(np.int32)
    to_col, to_row = np.empty((2, n), np.int32)
    assign(cost, v, to_col, to_row)
    total = int(cost[np.arange(n), to_col].sum(dtype=np.int64))
    reduced = cost.astype(np.int64) - v
    assert total == cheapest(cost)
    assert total == reduced.min(axis=1).sum() + v.sum(dtype=np.int64)
    assert (to_row[to_col] == np.arange(n)).all()


def test_equal_costs_are_assigned() -> None:
    """A matrix of ties, as zero columns give, ends in some permutation."""
    for n in (1, 2, 17, 64):
        assert sorted(assignment(np.zeros((n, n), np.int32))) == list(range(n))
