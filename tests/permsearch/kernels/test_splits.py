"""Re-splits of a window: all of them, each at its exact price, the best one found and applied."""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels import splits
from permsearch.kernels.splits import apply_splits, best_splits, split_table
from permsearch.kernels.subsets import subset_plan, subset_values
from permsearch.kernels.value import group_values

Columns = NDArray[np.float32]

# n, m, groups in a window
KINDS = [(2, 4, 2), (2, 4, 3), (1, 4, 2), (3, 4, 2), (1, 2, 2), (1, 2, 4), (2, 3, 3), (3, 5, 2)]


def value(columns: Columns, members: NDArray[np.int64], n: int) -> float:
    """Return the n largest values of each row of a group, summed."""
    rows = columns[members].T.astype(np.float64)
    return float(np.sort(rows, axis=1)[:, -n:].sum())


def prices(columns: Columns, window: NDArray[np.int64], n: int, m: int, k: int) -> Columns:
    """Return the value of every m-subset by the kernel."""
    plan = subset_plan(k * m) if (n, m) == (2, 4) else np.empty((0, 0), np.int64)
    out = np.empty(comb(k * m, m))
    subset_values(columns, window, n, m, plan, out)
    return out


@pytest.mark.parametrize(("m", "k"), [(4, 2), (4, 3), (2, 3), (2, 4), (3, 2), (5, 2)])
def test_every_split_is_listed_once(m: int, k: int) -> None:
    """The table holds each way to share out the columns exactly once, the present one first."""
    subsets, splits = split_table(m, k)
    assert len(splits) == factorial(k * m) // (factorial(m) ** k * factorial(k))
    shared = {frozenset(tuple(subsets[i]) for i in split) for split in splits}
    assert len(shared) == len(splits)
    everyone = list(range(k * m))
    assert all(sorted(place for part in one for place in part) == everyone for one in shared)
    np.testing.assert_array_equal(subsets[splits[0]].ravel(), everyone)


@pytest.mark.parametrize(("w", "triples"), [(8, 20), (12, 84)])
def test_plan_prices_every_subset_once(w: int, triples: int) -> None:
    """Each 4-subset stands in one entry of the plan, built from as few triples as known."""
    plan = subset_plan(w)
    listed = {
        (int(rank), frozenset((*entry[:3], leaf)))
        for entry in plan.tolist()
        for leaf, rank in zip(entry[3:7], entry[7:], strict=True)
    }
    assert listed == {(i, frozenset(s)) for i, s in enumerate(combinations(range(w), 4))}
    assert len({tuple(entry[:3]) for entry in plan.tolist()}) <= triples


@pytest.mark.parametrize(("n", "m", "k"), KINDS)
@pytest.mark.parametrize("rows", [1, 17, 600])
def test_subset_values_equal_sorting(n: int, m: int, k: int, rows: int) -> None:
    """Every subset's value equals that of sorting each row, whatever the block of rows."""
    rng = np.random.default_rng(rows)
    columns = rng.random((k * m + 3, rows), dtype=np.float32)
    window = rng.permutation(len(columns))[: k * m]
    expected = [value(columns, window[list(s)], n) for s in combinations(range(k * m), m)]
    np.testing.assert_allclose(prices(columns, window, n, m, k), expected, rtol=1e-5)


def test_subset_values_of_eight_columns_a_group() -> None:
    """4:8, whose 16 columns have 12,870 subsets, is priced right too."""
    columns = np.random.default_rng(3).random((16, 30), dtype=np.float32)
    priced = prices(columns, np.arange(16), 4, 8, 2)
    subsets, _ = split_table(8, 2)
    for i in range(0, len(subsets), 1001):
        assert priced[i] == pytest.approx(value(columns, subsets[i], 4), rel=1e-5)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 20), levels=st.sampled_from([2, 4, 1000])
)
def test_best_split_is_the_best(seed: int, rows: int, levels: int) -> None:
    """The best of the 35 re-splits is found, ties and zeros included, and no loss is reported."""
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, levels, (8, rows)) / levels).astype(np.float32)
    order = rng.permutation(8)
    tables = (subset_plan(8), split_table(4, 2)[1])
    gain, _ = best_splits(columns, order, np.array([[0, 1]]), 2, 4, tables)
    present = value(columns, order[:4], 2) + value(columns, order[4:], 2)
    options = [
        value(columns, np.array(s), 2) + value(columns, np.setdiff1d(np.arange(8), s), 2)
        for s in combinations(range(8), 4)
    ]
    assert gain[0] == pytest.approx(max(options) - present, abs=1e-5)
    assert gain[0] >= 0


def test_splits_are_applied_to_fresh_groups_only() -> None:
    """The first window in the ranking wins; one that shares a group with it waits."""
    rng = np.random.default_rng(1)
    columns = rng.random((12, 9), dtype=np.float32)
    order = np.arange(12)
    sets = np.array(list(combinations(range(3), 2)))
    tables = split_table(4, 2)
    gain, best = best_splits(columns, order, sets, 2, 4, (subset_plan(8), tables[1]))
    current = group_values(columns, order, 2, 4)
    before = current.sum()
    ranking = np.argsort(-gain)
    touched = apply_splits(columns, order, sets, 2, tables, (gain, best, ranking), current, 0.0)
    assert set(np.flatnonzero(touched)) == set(sets[ranking[0]])
    assert current.sum() - before == pytest.approx(gain[ranking[0]], rel=1e-5)
    np.testing.assert_allclose(current, group_values(columns, order, 2, 4))
    assert sorted(order) == list(range(12))


def test_a_gain_that_float64_refutes_is_dropped() -> None:
    """A re-split that does not pass the least gain leaves order and values alone."""
    columns = np.random.default_rng(2).random((8, 5), dtype=np.float32)
    order = np.arange(8)
    current = group_values(columns, order, 2, 4)
    gain, best = np.array([1.0]), np.array([7])
    found = (gain, best, np.array([0]))
    tables = split_table(4, 2)
    touched = apply_splits(columns, order, np.array([[0, 1]]), 2, tables, found, current, 1e9)
    assert not touched.any()
    assert gain[0] == 0
    np.testing.assert_array_equal(order, np.arange(8))


def test_the_present_split_wins_ties() -> None:
    """Equal columns gain nothing, and the present split stays."""
    columns = np.ones((8, 3), np.float32)
    for order in list(permutations(range(8)))[:3]:
        tables = (subset_plan(8), split_table(4, 2)[1])
        gain, best = best_splits(columns, np.array(order), np.array([[0, 1]]), 2, 4, tables)
        assert (gain[0], best[0]) == (0.0, 0)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows split over two threads give the gains and rows of one."""
    rng = np.random.default_rng(4)
    columns = rng.random((32, 20), dtype=np.float32)
    sets = np.array(list(combinations(range(8), 2)))
    arguments = (columns, rng.permutation(32), sets, 2, 4, (subset_plan(8), split_table(4, 2)[1]))
    gain, best = best_splits(*arguments)
    monkeypatch.setattr(splits, "_WORTH_SPLITTING", 0)
    monkeypatch.setattr(splits, "get_num_threads", lambda: 2)
    twice = best_splits(*arguments)
    np.testing.assert_array_equal(twice[0], gain)
    np.testing.assert_array_equal(twice[1], best)
