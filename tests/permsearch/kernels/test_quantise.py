"""Columns as bytes."""

from __future__ import annotations

import numpy as np

from permsearch.kernels.quantise import quantise


def test_small_entries_are_rounded_and_large_ones_clipped() -> None:
    """Every byte is the nearest level, or 255 above the clip; padding is zero."""
    columns = np.abs(np.random.default_rng(0).standard_normal((24, 45))).astype(np.float32)
    levels, step = quantise(columns, 2, 4)
    expected = np.minimum(np.floor(columns / step + 0.5), 255)
    assert np.abs(levels[:, :45] - expected).max() <= 1
    assert (levels[:, :45] != expected).mean() < 0.01
    assert not levels[:, 45:].any()


def test_clip_lies_below_the_maximum_where_more_than_one_is_kept() -> None:
    """2:4 keeps clipped entries anyway, so the step gets finer; scaling scales the step."""
    columns = np.abs(np.random.default_rng(1).standard_normal((64, 256))).astype(np.float32)
    _, step = quantise(columns, 2, 4)
    assert step * 255 < 0.8 * columns.max()
    assert quantise(columns * np.float32(0.25), 2, 4)[1] == step / 4


def test_zero_columns_stay_zero() -> None:
    """All zeros, and zero columns among others, become zero bytes."""
    assert not quantise(np.zeros((8, 5), np.float32), 2, 4)[0].any()
    columns = np.ones((8, 5), np.float32)
    columns[3] = 0
    levels, step = quantise(columns, 2, 4)
    assert not levels[3].any()
    assert step * levels[0, 0] == np.float32(1)


def test_one_row_and_two_groups_will_do() -> None:
    """The smallest matrix quantises."""
    columns = np.array([[0.1], [0.9], [0.4], [0.5]], np.float32)
    levels, step = quantise(columns, 1, 2)
    assert levels.shape == (4, 32)
    assert 0 < levels[0, 0] < levels[2, 0] <= levels[1, 0]
    assert step > 0


def test_tiny_entries_beside_a_large_one() -> None:
    """Entries of the order of the smallest float32 do not make the step overflow."""
    columns = np.array([[0.5], [3e-37], [3e-37], [3e-37]], np.float32)
    levels, step = quantise(columns, 1, 2)
    assert (levels[:, 0] == [255, 0, 0, 0]).all()
    assert step > 0
