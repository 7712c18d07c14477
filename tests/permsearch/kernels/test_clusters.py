"""The exchange of rows between groups against plain sums."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels.clusters import anneal_groups, exchange_sweep, group_sums, set_prices
from permsearch.kernels.rng import seeded
from permsearch.kernels.sad import padded_bytes
from permsearch.kernels.tiles import worth_of_rows


def levels_of(rows: int, columns: int, seed: int, most: int = 256) -> NDArray[np.uint8]:
    """Return random rows in levels, padded as the kernels need them."""
    levels = padded_bytes(rows, columns)
    levels[:, :columns] = np.random.default_rng(seed).integers(0, most, (rows, columns))
    return levels


def sums_of(levels: NDArray[np.uint8], order: NDArray[Any], first: NDArray[Any]) -> NDArray[Any]:
    """Return the groups' sums, slowly."""
    groups = [order[a:b] for a, b in pairwise(first)]
    return np.array([levels[rows].astype(np.int64).sum(axis=0) for rows in groups])


def best_together(sums: NDArray[Any], heights: NDArray[Any], area: int) -> float:
    """Return the value of the best pieces where a piece may be kept in part, by sorting."""
    worth = sorted(
        ((s / h, h) for row, h in zip(sums, heights, strict=True) for s in row), reverse=True
    )
    total, room = 0.0, float(area)
    for mean, height in worth:
        total += mean * min(height, room)
        room -= min(height, room)
    return total


@settings(max_examples=60, deadline=None)
@given(
    heights=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    columns=st.integers(1, 40),
    share=st.floats(0.05, 1.0),
    seed=st.integers(0, 999),
)
def test_prices_are_those_of_the_best_pieces(
    heights: list[int], columns: int, share: float, seed: int
) -> None:
    """The value is that of sorting, up to whole prices; groups that are dropped keep nothing."""
    first = np.concatenate([[0], np.cumsum([*heights, 2])]).astype(np.int64)
    levels = levels_of(int(first[-1]), columns, seed)
    order = np.random.default_rng(seed).permutation(len(levels))
    sums = np.empty((len(heights) + 1, levels.shape[1]), np.int32)
    group_sums(levels, order, first, sums)
    expected = sums_of(levels, order, first)
    assert np.array_equal(sums, expected)
    live = len(heights)
    area = max(1, int(share * columns * sum(heights)))
    prices = np.zeros(live + 1, np.int32)
    value = set_prices(sums, columns, first, live, area, True, prices)
    best = best_together(expected[:live, :columns], np.array(heights), area)
    rounding = columns * sum(heights)  # prices of unequal groups are whole numbers, each for itself
    assert best - 1e-6 <= value <= best + rounding
    assert prices[live] > sums.max()
    if len(set(heights)) == 1:
        assert abs(value - best) <= 1e-6 * best + area / heights[0]


@settings(max_examples=60, deadline=None)
@given(v=st.integers(1, 5), columns=st.integers(2, 40), seed=st.integers(0, 999))
def test_each_group_may_keep_as_many_columns(v: int, columns: int, seed: int) -> None:
    """By group, prices let through no more than the count, and the value is that of sorting."""
    first = np.arange(0, 3 * v + 1, v)
    levels, order = levels_of(3 * v, columns, seed), np.arange(3 * v)
    kept = max(1, columns // 3)
    sums = np.empty((3, levels.shape[1]), np.int32)
    group_sums(levels, order, first, sums)
    prices = np.zeros(3, np.int32)
    value = set_prices(sums, columns, first, 3, kept * v, False, prices)
    ordered = np.sort(sums[:, :columns], axis=1)[:, columns - kept :]
    assert value == ordered.sum()
    assert ((sums[:, :columns] > prices[:, None]).sum(axis=1) <= kept).all()


@settings(max_examples=40, deadline=None)
@given(
    heights=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    columns=st.integers(1, 70),
    price=st.integers(0, 500),
    seed=st.integers(0, 999),
)
def test_quiet_steps_never_lose_and_keep_the_books(
    heights: list[int], columns: int, price: int, seed: int
) -> None:
    """At fixed prices every step without noise gains or stays; sums and order stay in step."""
    first = np.concatenate([[0], np.cumsum(heights)]).astype(np.int64)
    levels = levels_of(int(first[-1]), columns, seed)
    mass = levels.sum(axis=1, dtype=np.int32)
    order = np.random.default_rng(seed).permutation(len(levels))
    groups = len(heights)
    sums = np.empty((groups, levels.shape[1]), np.int32)
    group_sums(levels, order, first, sums)
    prices = np.full(groups, price, np.int32)
    rng, bank = seeded(seed), np.zeros(1 << 10, np.float32)
    duals, quiet = np.zeros(len(levels), np.float32), np.zeros(1, np.float32)
    before = np.maximum(sums - prices[:, None], 0).sum()
    for _ in range(20):
        exchange_sweep(levels, mass, first, order, sums, prices, quiet, bank, duals, groups, rng)
        value = np.maximum(sums - prices[:, None], 0).sum()
        assert value >= before
        before = value
    assert sorted(order) == list(range(len(levels)))
    assert np.array_equal(sums, sums_of(levels, order, first))


def test_a_step_is_the_best_of_all_exchanges() -> None:
    """With one row in every group a step without noise finds the best assignment outright."""
    from itertools import permutations

    levels = levels_of(5, 30, seed=3)
    first, order = np.arange(6), np.arange(5)
    prices = np.array([10, 60, 110, 160, 210], np.int32)
    sums = np.empty((5, levels.shape[1]), np.int32)
    group_sums(levels, order, first, sums)

    def worth(rows: Any) -> int:
        return int(np.maximum(levels[list(rows)].astype(np.int64) - prices[:, None], 0).sum())

    mass, duals = levels.sum(axis=1, dtype=np.int32), np.zeros(5, np.float32)
    exchange_sweep(
        levels, mass, first, order, sums, prices, np.zeros(1, np.float32),
        np.zeros(1 << 10, np.float32), duals, 5, seeded(0),
    )  # fmt: skip
    assert worth(order) == max(worth(rows) for rows in permutations(range(5)))


def test_the_best_order_is_kept_and_valued() -> None:
    """Annealing hot leaves the best order it saw, with its own value, not the last one."""
    levels = levels_of(32, 48, seed=4)
    first, order = np.arange(0, 33, 8), np.arange(32)
    sums = np.empty((4, levels.shape[1]), np.int32)
    group_sums(levels, order, first, sums)
    shape = (48, first, 4, 8 * 40, True, 4, 4)
    best, values = order.copy(), np.array([-np.inf])
    bank = np.random.default_rng(0).standard_normal(1 << 12).astype(np.float32)
    work = (sums, np.zeros(4, np.int32), bank, np.zeros(32, np.float32))
    noises = np.full(200, 3000.0, np.float32)
    mass = levels.sum(axis=1, dtype=np.int32)
    anneal_groups(levels, mass, shape, order, best, values, noises, work, seeded(1))
    own = np.empty_like(sums)
    group_sums(levels, best, first, own)
    assert values[0] == set_prices(own, 48, first, 4, 320, True, np.zeros(4, np.int32))
    assert sorted(best) == list(range(32))
    assert values[0] >= set_prices(sums, 48, first, 4, 320, True, np.zeros(4, np.int32))


@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 5),
    g=st.integers(1, 4),
    price=st.floats(0, 2),
    seed=st.integers(0, 999),
)
def test_worth_of_the_first_rows(rows: int, columns: int, g: int, price: float, seed: int) -> None:
    """Tile by tile, what column sums exceed the price of their area by."""
    matrix = np.random.default_rng(seed).random((rows, columns))
    worth = worth_of_rows(matrix, g, price)
    for n in range(1, rows + 1):
        expected = 0.0
        for start in range(0, n, g):
            tile = matrix[start : min(n, start + g)]
            expected += np.maximum(tile.sum(axis=0) - price * len(tile), 0).sum()
        assert np.isclose(worth[n - 1], expected, atol=1e-12)
