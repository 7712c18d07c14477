"""Unaligned blocks: exact, proven by a price, refused with reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns import Block, UnalignedBlock
from permsearch.published.unaligned import greedy_mask
from permsearch.testing import all_orders, check_pattern
from tests import reference_block as reference
from tests import strategies


@st.composite
def weights(draw: st.DrawFn) -> tuple[NDArray[Any], UnalignedBlock]:
    """Draw a weight, with taps or without, and a pattern that it fits."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    taps = draw(st.sampled_from([(), (1,), (2,)]))
    scores = draw(strategies.scores(rows, cols * int(np.prod(taps))))
    size = draw(st.integers(1, min(4, scores.shape[1])))
    kept = draw(st.floats(size / scores.size, 1.0))
    return scores.reshape(rows, cols, *taps), UnalignedBlock(size, kept)


@given(drawn=weights())
def test_blocks_are_the_best_of_all_choices(drawn: tuple[NDArray[Any], UnalignedBlock]) -> None:
    """The value is that of a table over rows and counts; the price's bound meets it."""
    scores, pattern = drawn
    matrix, count = reference.unfolded(scores), pattern.count(scores.shape)
    expected = reference.best_unaligned(matrix, pattern.size, count)
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    ((bound, kind),) = pattern.limits(scores, frozenset())
    assert kind == "price"
    assert expected <= bound <= expected * (1 + 1e-9)
    check_pattern(pattern, scores)


@given(seed=st.integers(0, 9999), size=st.integers(2, 4), kept=st.floats(0.15, 1))
def test_ties_do_not_cost_a_block(seed: int, size: int, kept: float) -> None:
    """Where many windows are equal the number of blocks jumps at a price; the value does not."""
    scores = np.random.default_rng(seed).integers(1, 3, (3, 14)).astype(np.float64)
    pattern = UnalignedBlock(size, kept)
    expected = reference.best_unaligned(scores, size, pattern.count(scores.shape))
    assert pattern.retained(scores) == expected


@given(
    bits=st.lists(st.booleans(), min_size=9, max_size=9),
    size=st.integers(2, 4),
    kept=st.sampled_from([0.45, 0.7, 1.0]),
)
def test_masks_are_accepted_if_blocks_can_cover_them(
    bits: list[bool], size: int, kept: float
) -> None:
    """A mask is the pattern's exactly if some disjoint blocks within the row cover it."""
    pattern = UnalignedBlock(size, kept)
    expected = reference.runs_fit(bits, size, pattern.count((1, 9)))
    assert pattern.accepts(np.array([bits])) == expected


def test_a_large_entry_leaves_no_rounding_behind() -> None:
    """Windows beside an entry 1e30 times as large are still told apart."""
    scores = np.full((1, 12), 1.0)
    scores[0, 0], scores[0, 7:9] = 1e30, 2.0
    assert np.flatnonzero(UnalignedBlock(2, 0.34).keep(scores)).tolist() == [0, 1, 7, 8]


def test_blocks_reach_from_tap_to_tap() -> None:
    """A row of a convolution is one line: its taps one after the other."""
    scores = np.zeros((1, 3, 2))
    scores[0, 2, 0] = scores[0, 0, 1] = 1.0
    assert UnalignedBlock(2, 0.34).retained(scores) == 2.0


@pytest.mark.parametrize("seed", range(4))
def test_free_starts_beat_aligned_ones_and_greedy(seed: int) -> None:
    """On any weight exact free starts keep at least what greedy and aligned blocks do."""
    scores = np.abs(ps.instances.gaussian(40, 64, seed=seed))
    pattern = UnalignedBlock(4, 0.25)
    value = pattern.retained(scores)
    assert value > Block((1, 4), 0.25).retained(scores)
    assert value > scores[greedy_mask(scores, pattern)].sum(dtype=np.float64)
    assert pattern.keep(scores).mean() == 0.25


@pytest.mark.parametrize("text", ["unaligned:2@0.5", "unaligned:3@0.7", "unaligned:2@1"])
def test_no_column_order_exceeds_a_limit(text: str) -> None:
    """The limit for free columns holds for all orders."""
    scores = np.random.default_rng(3).random((3, 5)) ** 3
    pattern = ps.parse_pattern(text)
    assert isinstance(pattern, UnalignedBlock)
    best = max(pattern.retained(scores[:, order]) for order in all_orders(ps.Free(5)))
    assert all(limit >= best for limit, _ in pattern.limits(scores, frozenset({"cols"})))


@pytest.mark.parametrize(
    ("text", "words"),
    [("unaligned:0@0.5", "columns >= 1"), ("unaligned:4@0", "must lie in")],
)
def test_impossible_numbers_are_refused(text: str, words: str) -> None:
    """Blocks of nothing and shares outside (0, 1] are errors that say so."""
    with pytest.raises(ps.PatternError, match=words):
        ps.parse_pattern(text)


def test_blocks_that_do_not_fit_are_refused() -> None:
    """Rows shorter than a block, and shares of less than one, are errors with a way out."""
    with pytest.raises(ps.PatternError, match="3 columns are too few for blocks of 4"):
        UnalignedBlock(4, 0.5).check((8, 3))
    with pytest.raises(ps.PatternError, match=r"less than one block.*0\.25 is the least"):
        UnalignedBlock(4, 0.2).check((2, 8))


def test_what_fits_into_rows_is_the_most() -> None:
    """A share of one keeps what whole blocks can, and the order of the columns still matters."""
    assert UnalignedBlock(2, 1.0).count((3, 5)) == 6
    assert UnalignedBlock(2, 1.0).retained(np.array([[5.0, 1.0, 1.0, 1.0, 4.0]])) == 11.0


def test_half_precision_is_masked() -> None:
    """Scores as checkpoints store them get the mask that they get when widened."""
    scores = np.random.default_rng(0).random((16, 16)).astype(np.float16)
    pattern = UnalignedBlock(4, 0.5)
    assert np.array_equal(pattern.keep(scores), pattern.keep(scores.astype(np.float32)))
    check_pattern(pattern, scores)
