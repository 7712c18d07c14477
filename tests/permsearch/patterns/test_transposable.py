"""Transposable N:M: exact for every N and M, regular in both directions, refused with reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns import NM, TransposableNM
from permsearch.testing import all_orders, check_pattern
from tests import reference_transposable as reference
from tests import strategies


@st.composite
def weights(draw: st.DrawFn, largest: int) -> tuple[NDArray[Any], TransposableNM]:
    """Draw a weight of one to four blocks, with taps or without, and its pattern."""
    m = draw(st.integers(1, largest))
    n = draw(st.integers(1, m))
    rows, cols = m * draw(st.integers(1, 2)), m * draw(st.integers(1, 2))
    taps = draw(st.sampled_from([(), (2,)]))
    scores = draw(strategies.scores(rows, cols * int(np.prod(taps))))
    return scores.reshape(rows, cols, *taps), TransposableNM(n, m)


@given(drawn=weights(4))
def test_masks_are_the_best_of_all(drawn: tuple[NDArray[Any], TransposableNM]) -> None:
    """Up to 4 x 4 the value is that of trying every mask of every block."""
    scores, pattern = drawn
    expected = sum(
        reference.best_of_all(block, pattern.n)
        for matrix in reference.matrices(scores)
        for block in reference.blocks(matrix, pattern.m)
    )
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    check_pattern(pattern, scores)


@settings(max_examples=40)
@given(drawn=weights(16))
def test_masks_are_those_of_the_linear_program(
    drawn: tuple[NDArray[Any], TransposableNM],
) -> None:
    """Larger blocks agree with a linear program, and every row and column keeps exactly n."""
    scores, pattern = drawn
    mask = pattern.keep(scores)
    for matrix, kept in zip(reference.matrices(scores), reference.matrices(mask), strict=True):
        pairs = zip(
            reference.blocks(matrix, pattern.m), reference.blocks(kept, pattern.m), strict=True
        )
        for block, part in pairs:
            assert (part.sum(axis=0) == pattern.n).all()
            assert (part.sum(axis=1) == pattern.n).all()
            expected = reference.best_by_program(block, pattern.n)
            assert part.any()
            assert block[part].sum(dtype=np.float64) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("n", "m"), [(1, 32), (5, 31), (16, 32), (31, 32), (32, 32)])
def test_blocks_up_to_32(n: int, m: int) -> None:
    """The largest blocks are exact, too, with heavy tails."""
    scores = np.exp(3 * np.random.default_rng(n).standard_normal((m, m)))
    value = TransposableNM(n, m).retained(scores)
    assert value == pytest.approx(reference.best_by_program(scores, n), rel=1e-9)


@pytest.mark.parametrize(("n", "m"), [(2, 4), (1, 4), (4, 8), (3, 8), (8, 16)])
def test_a_weight_and_its_transpose_are_both_masked(n: int, m: int) -> None:
    """A mask is N:M along rows and along columns: blocks are no runs of a flattened row."""
    scores = np.abs(ps.instances.gaussian(2 * m, 3 * m, seed=n))
    mask = TransposableNM(n, m).keep(scores)
    assert NM(n, m).accepts(mask)
    assert NM(n, m).accepts(mask.T)
    assert mask.mean() == pytest.approx(n / m)
    turned = TransposableNM(n, m).retained(np.ascontiguousarray(scores.T))
    assert turned == pytest.approx(TransposableNM(n, m).retained(scores), rel=1e-12)


def test_a_mask_that_cannot_be_completed_is_refused() -> None:
    """Few enough entries everywhere are not sufficient: here one row could not get its second."""
    mask = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]], dtype=np.bool_)
    assert not TransposableNM(2, 3).accepts(mask)
    assert TransposableNM(2, 3).accepts(mask & ~np.eye(3, dtype=np.bool_))
    assert not TransposableNM(1, 3).accepts(mask)
    assert not TransposableNM(2, 4).accepts(mask)


@pytest.mark.parametrize("exponent", [-900, -60, 60, 900])
def test_scaling_by_a_power_of_two_changes_no_mask(exponent: int) -> None:
    """The tolerance is relative to each block: tiny and huge scores are masked alike."""
    scores = np.abs(ps.instances.gaussian(16, 16, seed=3)).astype(np.float64)
    mask = TransposableNM(3, 8).keep(scores)
    assert np.array_equal(TransposableNM(3, 8).keep(np.ldexp(scores, exponent)), mask)


def test_masks_do_not_depend_on_the_number_of_threads() -> None:
    """Blocks are solved one by one, however they are dealt to threads."""
    import numba

    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("numba may not use two threads here")
    scores = np.random.default_rng(0).random((1024, 1024), np.float32)
    before = numba.get_num_threads()
    try:
        masks = []
        for threads in (1, 2):
            numba.set_num_threads(threads)
            masks.append(TransposableNM(2, 4).keep(scores))
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(*masks)


@pytest.mark.parametrize("permute", [("rows",), ("cols",), ("rows", "cols"), ()])
@pytest.mark.parametrize("shape", [(4, 4), (4, 2, 2)], ids=str)
def test_no_order_exceeds_a_limit(shape: tuple[int, ...], permute: tuple[str, ...]) -> None:
    """Every limit that the pattern yields holds for all orders of the free axes."""
    scores = np.random.default_rng(7).random(shape) ** 3
    pattern = TransposableNM(1, 2)
    rows = list(all_orders(ps.Free(shape[0]))) if "rows" in permute else [slice(None)]
    cols = list(all_orders(ps.Free(shape[1]))) if "cols" in permute else [slice(None)]
    best = max(pattern.retained(scores[r][:, c]) for r in rows for c in cols)
    limits = list(pattern.limits(scores, frozenset(permute)))  # type: ignore[arg-type]
    assert limits
    assert all(limit >= best for limit, _ in limits)


@pytest.mark.parametrize("text", ["transposable:0:4", "transposable:5:4", "transposable:16:33"])
def test_impossible_numbers_are_refused(text: str) -> None:
    """N and M are those of N:M."""
    with pytest.raises(ps.PatternError):
        ps.parse_pattern(text)


def test_shapes_that_do_not_tile_name_the_axis() -> None:
    """Rows as well as columns come in groups of M."""
    with pytest.raises(ps.PatternError, match=r"6 rows do not split into groups of 4"):
        TransposableNM(2, 4).check((6, 8))
    with pytest.raises(ps.PatternError, match=r"6 columns do not split into groups of 4"):
        TransposableNM(2, 4).check((8, 6))


def test_half_precision_is_masked() -> None:
    """Scores as checkpoints store them get the mask that they get when widened."""
    scores = np.random.default_rng(0).random((16, 16)).astype(np.float16)
    pattern = TransposableNM(2, 4)
    assert np.array_equal(pattern.keep(scores), pattern.keep(scores.astype(np.float32)))
    check_pattern(pattern, scores)
