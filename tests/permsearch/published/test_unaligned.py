"""Greedy unaligned blocks are what the rule says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from permsearch.patterns import UnalignedBlock
from permsearch.published.unaligned import greedy_mask
from tests import reference_block as reference


@given(seed=st.integers(0, 999), size=st.integers(1, 4), kept=st.floats(0.2, 1))
def test_greedy_takes_the_heaviest_that_fits(seed: int, size: int, kept: float) -> None:
    """The mask is that of a loop over all windows, ties included."""
    scores = np.random.default_rng(seed).integers(0, 5, (3, 9)).astype(np.float32)
    pattern = UnalignedBlock(size, kept)
    mask = greedy_mask(scores, pattern)
    count = pattern.count(scores.shape)
    assert np.array_equal(mask, reference.greedy_unaligned(scores, size, count))
    assert pattern.accepts(mask)


def test_convolutions_are_lines_of_taps() -> None:
    """A convolution is masked like its unfolded matrix."""
    scores = np.random.default_rng(1).random((3, 4, 2))
    mask = greedy_mask(scores, UnalignedBlock(3, 0.4))
    count = UnalignedBlock(3, 0.4).count(scores.shape)
    expected = reference.greedy_unaligned(reference.unfolded(scores), 3, count)
    assert np.array_equal(reference.unfolded(mask), expected)
