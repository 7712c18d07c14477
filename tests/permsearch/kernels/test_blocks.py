"""Kernels of blocks and small transposable blocks keep what they carry in step with the orders."""

from __future__ import annotations

import numpy as np
import pytest

from permsearch.kernels import blocks, transposable_swaps
from permsearch.kernels.rng import seeded
from permsearch.kernels.transposable import block_levels
from permsearch.kernels.transposable_trials import promises
from permsearch.solvers._block_axes import BlockAxes
from permsearch.solvers._transposable_axes import PatternAxes
from tests import reference_block, reference_transposable


def random_orders(rows: int, cols: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random orders of both axes."""
    rng = np.random.default_rng(seed)
    return rng.permutation(rows), rng.permutation(cols)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(12, 8), (12, 4, 2)], ids=str)
def test_values_of_blocks_are_those_of_the_orders(shape: tuple[int, ...], axis: int) -> None:
    """Before and after hot swaps the sums are those of the permuted weight's blocks."""
    scores = np.random.default_rng(1).random(shape, np.float32)
    orders = random_orders(shape[0], shape[1], 2)
    state = BlockAxes(scores, (3, 2), 4, orders, np.random.default_rng(3))
    for _ in range(3):
        value = state.look(axis)
        matrix = reference_block.unfolded(scores[orders[0]][:, orders[1]])
        sums = sorted(reference_block.block_sums(matrix, 3, 2).values())
        assert value == pytest.approx(sum(sums[-4:]), rel=1e-5)
        assert np.sort(state.blocks[axis], axis=None) == pytest.approx(sums, rel=1e-5)
        state.measure((axis,))
        state.look(axis)
        assert state.phase(axis, (2.0, 1.0)) > 0
        size = state.sizes[axis]
        grouped = state.items[axis][orders[axis]].reshape(-1, size, state.items[axis].shape[1])
        assert state.blocks[axis] == pytest.approx(grouped.sum(axis=1), rel=1e-4)
        assert sorted(orders[axis]) == list(range(shape[axis]))


def test_cold_swaps_never_lose() -> None:
    """Without heat the value at the price only rises."""
    scores = np.random.default_rng(5).random((32, 32), np.float32)
    orders = (np.arange(32), np.arange(32))
    state = BlockAxes(scores, (4, 4), 16, orders, np.random.default_rng(6))
    for axis in (0, 1, 0, 1):
        state.look(axis)
        price = float(state.price)
        before = np.maximum(state.blocks[axis] - price, 0).sum(dtype=np.float64)
        state.phase(axis, (0.0, 0.0))
        after = np.maximum(state.blocks[axis] - price, 0).sum(dtype=np.float64)
        assert after >= before * (1 - 1e-6)


def test_the_unit_of_temperatures_is_what_swaps_change() -> None:
    """Where all items are alike nothing changes, and the unit is zero."""
    items, groups = np.ones((8, 5), np.float32), np.full((4, 5), 2, np.float32)
    scatter = blocks.swap_scatter(items, groups, np.arange(8), 2, np.float32(1), 100, seeded(1))
    assert scatter == 0.0


@pytest.mark.parametrize(("n", "m"), [(1, 2), (1, 3), (2, 3), (1, 4), (2, 4), (3, 4)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("taps", [(), (2,)], ids=str)
def test_values_of_small_blocks_are_exact(n: int, m: int, axis: int, taps: tuple[int, ...]) -> None:
    """Before and after hot swaps the value is that of the best masks of all blocks."""
    shape = (2 * m, 3 * m, *taps)
    scores = np.random.default_rng(n).random(shape, np.float32)
    orders = random_orders(shape[0], shape[1], m)
    state = PatternAxes(scores, n, m, orders, np.random.default_rng(3))
    state.measure((axis,))
    for _ in range(2):
        value = state.look(axis)
        permuted = scores[orders[0]][:, orders[1]]
        expected = sum(
            reference_transposable.best_of_all(block, n)
            for matrix in reference_transposable.matrices(permuted)
            for block in reference_transposable.blocks(matrix, m)
        )
        assert value == pytest.approx(expected, rel=1e-5)
        state.phase(axis, (2.0, 1.0))
        moved = float(state._tables(axis)[3].sum())
        assert moved == pytest.approx(state.look(axis), rel=1e-5)


@pytest.mark.parametrize(("n", "m", "count"), [(2, 4, 15), (1, 4, 6), (3, 4, 6), (2, 3, 2)])
def test_patterns_of_the_other_columns(n: int, m: int, count: int) -> None:
    """Beside each pattern stand all ways to complete it to n in every row."""
    rows, beside = transposable_swaps.column_patterns(n, m)
    assert beside.shape == (len(rows), count, m - 1)
    for a in range(len(rows)):
        for others in beside[a]:
            assert (rows[a].astype(int) + rows[others].sum(axis=0) == n).all()


@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 5), (4, 8)])
def test_promises_are_upper_limits_and_exact_at_home(n: int, m: int) -> None:
    """Prices of rows prove what the best mask keeps, and bound any other columns."""
    rng = np.random.default_rng(n)
    scores = np.exp(rng.standard_normal((2 * m, m))).astype(np.float32)
    columns = np.ascontiguousarray(scores.T[:, None, :])  # two groups would do; one here
    cut = np.ascontiguousarray(scores.reshape(2, m, m))
    values, levels = np.empty(2), np.empty((2, m))
    block_levels(cut, n, values, levels)
    for block, value in zip(cut, values, strict=True):
        assert value == pytest.approx(reference_transposable.best_by_program(block, n), rel=1e-6)
    promised = np.empty((m, 1))
    order = np.arange(2 * m)
    promises(columns, order, order[:m], np.zeros(1, np.int64), n, levels[:, None], promised)
    proven = n * levels.sum() + promised.sum()
    assert proven == pytest.approx(values.sum(), rel=1e-9)
    others = np.exp(rng.standard_normal((2 * m, m))).astype(np.float32)
    swapped = np.ascontiguousarray(others.T[:, None, :])
    promises(swapped, order, order[:m], np.zeros(1, np.int64), n, levels[:, None], promised)
    best = sum(
        reference_transposable.best_by_program(block, n) for block in others.reshape(2, m, m)
    )
    assert n * levels.sum() + promised.sum() >= best * (1 - 1e-9)
