"""A convolution is one matrix row per output channel and tap, and comes back unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from permsearch.layout import (
    taps_as_columns,
    taps_as_rows,
    taps_outside,
    weight_from_columns,
    weight_from_rows,
    weight_from_taps,
)
from tests import reference
from tests.reference_block import unfolded

SHAPES = [(3, 4), (2, 4, 3), (2, 4, 3, 2), (1, 4, 1, 1), (2, 1, 2, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_taps_become_rows(shape: tuple[int, ...]) -> None:
    """Columns are input channels; each tap of each output channel is a row."""
    weight = np.arange(np.prod(shape)).reshape(shape)
    assert np.array_equal(taps_as_rows(weight), reference.matrix(weight))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_way_back_is_exact(shape: tuple[int, ...]) -> None:
    """Undoing the layout gives the weight, contiguous, whatever its memory order was."""
    weight = np.asfortranarray(np.arange(np.prod(shape)).reshape(shape))
    back = weight_from_rows(taps_as_rows(weight), shape)
    assert np.array_equal(back, weight)
    assert len(shape) == 2 or back.flags.c_contiguous


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_taps_become_columns(shape: tuple[int, ...]) -> None:
    """Taps are outermost, so that the input channels of each are neighbours; and back again."""
    weight = np.asfortranarray(np.arange(np.prod(shape)).reshape(shape))
    matrix = taps_as_columns(weight)
    assert np.array_equal(matrix, unfolded(weight))
    assert np.array_equal(weight_from_columns(matrix, shape), weight)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_taps_are_stacked(shape: tuple[int, ...]) -> None:
    """One matrix (out, in) stands on another for every tap; and back again."""
    weight = np.asfortranarray(np.arange(np.prod(shape)).reshape(shape))
    taps = [weight[(..., *tap)] for tap in np.ndindex(*shape[2:])]
    assert np.array_equal(taps_outside(weight), np.concatenate(taps))
    assert np.array_equal(weight_from_taps(taps_outside(weight), shape), weight)
