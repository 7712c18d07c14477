"""Blocks: best, exact under ties, refused with reasons, and bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns import Block
from permsearch.testing import all_orders, check_pattern
from tests import reference_block as reference
from tests import strategies

SHARES = (0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1.0)


@st.composite
def weights(draw: st.DrawFn) -> tuple[NDArray[Any], Block]:
    """Draw a weight, with taps or without, and a pattern that it fits."""
    height, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows, cols = height * draw(st.integers(1, 3)), width * draw(st.integers(1, 3))
    taps = draw(st.sampled_from([(), (1,), (2,), (2, 2)]))
    scores = draw(strategies.scores(rows, cols * int(np.prod(taps))))
    blocks = scores.size // (height * width)
    kept = draw(st.floats(1 / blocks, 1.0))
    return scores.reshape(rows, cols, *taps), Block((height, width), kept)


@given(drawn=weights())
def test_blocks_that_stay_are_the_largest(drawn: tuple[NDArray[Any], Block]) -> None:
    """The value is the sum of the largest block sums, and the mask keeps whole blocks, exactly."""
    scores, pattern = drawn
    matrix, count = reference.unfolded(scores), pattern.count(scores.shape)
    sums = reference.block_sums(matrix, *pattern.shape)
    expected = sum(sorted(sums.values())[-count:])
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    mask = reference.unfolded(pattern.keep(scores))
    assert mask.sum() == count * pattern.shape[0] * pattern.shape[1]
    check_pattern(pattern, scores)


@given(seed=st.integers(0, 999), kept=st.sampled_from(SHARES))
def test_ties_go_to_the_lower_index(seed: int, kept: float) -> None:
    """With few different whole numbers the mask is the twin's to the entry, and exact in count."""
    scores = np.random.default_rng(seed).integers(0, 2, (6, 8)).astype(np.float32)
    pattern = Block((2, 2), kept)
    expected = reference.keep_blocks(scores, 2, 2, pattern.count(scores.shape))
    assert np.array_equal(pattern.keep(scores), expected)


@pytest.mark.parametrize("kept", SHARES)
def test_never_more_than_the_share(kept: float) -> None:
    """The number of blocks is rounded down, and not by a float's last bit."""
    count = Block((1, 1), kept).count((6, 10))
    assert count == int(kept * 60 + 1e-6)
    assert count / 60 <= kept + 1e-12


def test_taps_have_blocks_of_their_own() -> None:
    """A convolution's block lies in one tap, over neighbouring channels; taps are outermost."""
    scores = np.zeros((2, 4, 3))
    scores[:, 2:, 1] = 1
    mask = Block((2, 2), 1 / 6).keep(scores)
    assert np.array_equal(mask, scores > 0)
    assert Block((2, 2), 1 / 6).accepts(mask)
    assert not Block((2, 2), 1 / 6).accepts(mask | (np.arange(3) == 0))


def test_shapes_that_do_not_tile_name_the_axis() -> None:
    """The error says which axis is short by how much, and padding completes it."""
    with pytest.raises(ps.PatternError, match=r"15 rows.*1 zero row,"):
        Block((16, 16), 0.25).check((15, 32))
    with pytest.raises(ps.PatternError, match=r"30 columns.*2 zero columns,"):
        Block((16, 16), 0.25).check((16, 30))
    padded = ps.search(np.ones((15, 30)), "block:16x16@0.5", pad=True, solver="none")
    assert padded.problem.terms[0].scores.shape == (16, 32)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("block:16x16@0", "must lie in"),
        ("block:16x16@1.5", "must lie in"),
        ("block:0x16@0.5", "rows and of columns"),
        ("block:16x0@0.5", "rows and of columns"),
    ],
)
def test_impossible_numbers_are_refused(text: str, words: str) -> None:
    """Sides of nothing and shares outside (0, 1] are errors that say so."""
    with pytest.raises(ps.PatternError, match=words):
        ps.parse_pattern(text)


@pytest.mark.parametrize("shape", [16, (16,), (16.5, 2), "ab", None])
def test_shapes_that_are_none_are_refused(shape: Any) -> None:
    """A block's shape is two whole numbers."""
    with pytest.raises(ps.PatternError, match="rows and of columns"):
        Block(shape, 0.5)


def test_a_share_of_nothing_is_refused() -> None:
    """A budget that rounds to no block at all says which share would keep one."""
    with pytest.raises(ps.PatternError, match=r"keeps none of the 4 blocks.*0\.25 is the least"):
        ps.single(np.ones((4, 4)), "block:2x2@0.2")


@pytest.mark.parametrize("permute", [("rows",), ("cols",), ("rows", "cols"), ()])
@pytest.mark.parametrize("text", ["block:2x2@0.5", "block:1x2@0.3", "block:2x1@0.3"])
@pytest.mark.parametrize("shape", [(4, 4), (4, 2, 2)], ids=str)
def test_no_order_exceeds_a_limit(
    shape: tuple[int, ...], text: str, permute: tuple[str, ...]
) -> None:
    """Every limit that the pattern yields holds for all orders of the free axes."""
    scores = np.random.default_rng(len(permute)).random(shape) ** 3
    pattern = ps.parse_pattern(text)
    assert isinstance(pattern, Block)
    rows = list(all_orders(ps.Free(shape[0]))) if "rows" in permute else [slice(None)]
    cols = list(all_orders(ps.Free(shape[1]))) if "cols" in permute else [slice(None)]
    best = max(pattern.retained(scores[r][:, c]) for r in rows for c in cols)
    limits = list(pattern.limits(scores, frozenset(permute)))  # type: ignore[arg-type]
    assert limits
    assert all(limit >= best for limit, _ in limits)
    assert permute or limits[0][0] == pytest.approx(best)


def test_axes_are_those_along_which_blocks_are_long() -> None:
    """Flat blocks are moved by one axis only, and nothing moves where all is kept."""
    assert Block((2, 1), 0.5).axes == {"rows"}
    assert Block((1, 2), 0.5).axes == {"cols"}
    assert Block((2, 2), 1.0).axes == frozenset()


def test_half_precision_is_masked() -> None:
    """Scores as checkpoints store them get the mask that they get when widened."""
    scores = np.random.default_rng(0).random((16, 16)).astype(np.float16)
    pattern = Block((4, 4), 0.5)
    assert np.array_equal(pattern.keep(scores), pattern.keep(scores.astype(np.float32)))
    check_pattern(pattern, scores)
