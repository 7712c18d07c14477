"""A convolution is one matrix row per output channel and tap, and comes back unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from permsearch.layout import taps_as_rows, weight_from_rows
from tests import reference

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
