"""V:N:M: live columns are the best of all sets, exact under ties, at any scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns import NM, VNM
from permsearch.published.vnm import norm_rule
from permsearch.testing import check_pattern
from tests import reference_vnm as reference
from tests import strategies


@st.composite
def weights(draw: st.DrawFn) -> tuple[NDArray[Any], VNM]:
    """Draw a weight, with taps or without, and a pattern that it fits."""
    v, m = draw(st.integers(1, 5)), draw(st.integers(4, 7))
    rows, cols = v * draw(st.integers(1, 3)), m * draw(st.integers(1, 2))
    taps = draw(st.sampled_from([(), (1,), (3,), (1, 2)]))
    count = int(np.prod(taps))
    scores = draw(strategies.scores(rows, cols * count))
    return scores.reshape(rows, cols, *taps), VNM(v, 2, m)


@given(drawn=weights())
def test_the_mask_is_the_best_of_all_sets(drawn: tuple[NDArray[Any], VNM]) -> None:
    """The value is the twin's for any scores, tiny, huge and tied ones included."""
    scores, pattern = drawn
    expected = reference.retained_vnm(scores, pattern.v, pattern.m)
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    mask = pattern.keep(scores)
    assert float(scores[mask].sum(dtype=float)) == pytest.approx(expected, rel=1e-9, abs=0)
    assert mask.sum() == scores.size * 2 // pattern.m
    check_pattern(pattern, scores)


@given(seed=st.integers(0, 9999), v=st.integers(1, 4), m=st.integers(4, 7))
def test_ties_go_to_the_lower_index(seed: int, v: int, m: int) -> None:
    """With few different whole numbers the mask is the twin's to the entry."""
    scores = np.random.default_rng(seed).integers(0, 3, (2 * v, 2 * m)).astype(np.float32)
    assert np.array_equal(VNM(v, 2, m).keep(scores), reference.keep_vnm(scores, v, m))


def test_sets_that_float32_cannot_tell_apart_are_told_apart() -> None:
    """Two sets that differ in the ninth digit: the better one stays."""
    scores = np.ones((64, 5))
    scores[:, 0] -= 1e-9
    assert not VNM(64, 2, 5).keep(scores)[:, 0].any()
    scores[:, 0] += 2e-9
    assert VNM(64, 2, 5).keep(scores)[:, 0].all()


def test_blocks_far_below_the_largest_entry_are_masked_as_well() -> None:
    """An entry of 1e30 beside a block of 1e-30 does not blur that block's choice."""
    scores = np.abs(ps.instances.gaussian(4, 12, seed=1)).astype(np.float64)
    scores[:, :6] *= 1e30
    scores[:, 6:] *= 1e-30
    assert np.array_equal(VNM(2, 2, 6).keep(scores), reference.keep_vnm(scores, 2, 6))


@pytest.mark.parametrize("m", [16, 32])
def test_wide_blocks_are_exact(m: int) -> None:
    """Enumeration is exact up to M = 32."""
    scores = np.abs(ps.instances.gaussian(3, m, seed=m))
    expected = reference.retained_vnm(scores, 3, m)
    assert VNM(3, 2, m).retained(scores) == pytest.approx(expected, rel=1e-12)


@given(drawn=weights())
def test_no_mask_of_the_norm_rule_keeps_more(drawn: tuple[NDArray[Any], VNM]) -> None:
    """The published rule gives legal masks that the exact ones are never below."""
    scores, pattern = drawn
    mask = norm_rule(scores, pattern)
    assert pattern.accepts(mask)
    assert mask.sum() == scores.size * 2 // pattern.m
    kept = float(scores[mask].sum(dtype=float))
    assert kept <= pattern.retained(scores) * (1 + 1e-9)


def test_the_norm_rule_takes_the_largest_columns() -> None:
    """Its live columns are those of the largest sums, of equal ones the lower index."""
    scores = np.array([[3.0, 1.0, 1.0, 2.0, 1.0], [3.0, 1.0, 1.0, 2.0, 9.0]])
    live = norm_rule(scores, VNM(2, 2, 5)).any(axis=0)
    assert live.tolist() == [True, False, False, True, True]
    ties = norm_rule(np.ones((2, 5)), VNM(2, 2, 5))
    assert ties.tolist() == [[True, True, False, False, False]] * 2


def test_plain_sparsity_is_a_special_case() -> None:
    """With V = 1, or with all columns live, the mask is that of 2:M."""
    scores = np.abs(ps.instances.gaussian(6, 12, seed=3))
    assert np.array_equal(VNM(1, 2, 6).keep(scores), NM(2, 6).keep(scores))
    assert np.array_equal(VNM(6, 2, 4).keep(scores), NM(2, 4).keep(scores))
    assert VNM(1, 2, 6).axes == VNM(6, 2, 4).axes == {"cols"}
    assert VNM(6, 2, 6).axes == {"rows", "cols"}


def test_blocks_are_cut_from_matrices_of_taps() -> None:
    """A block holds V output channels of one tap, not a run of a flattened filter."""
    scores = np.abs(ps.instances.gaussian(4, 18, seed=4)).reshape(4, 6, 3)
    mask = VNM(2, 2, 6).keep(scores)
    for tap in range(3):
        assert np.array_equal(mask[:, :, tap], VNM(2, 2, 6).keep(scores[:, :, tap]))


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_floats_of_other_sizes_are_masked_too(dtype: Any) -> None:
    """Masks of half and long floats are those of the same numbers as float64."""
    scores = np.abs(ps.instances.gaussian(4, 10, seed=6)).astype(dtype)
    pattern, plain = VNM(2, 2, 5), scores.astype(np.float64)
    assert np.array_equal(pattern.keep(scores), pattern.keep(plain))
    assert pattern.retained(scores) == pattern.retained(plain)
    assert np.array_equal(norm_rule(scores, pattern), norm_rule(plain, pattern))


def test_accepts_allows_less_and_refuses_more() -> None:
    """At most four live columns in a block and two entries in a row; shapes must tile."""
    pattern = VNM(2, 2, 5)
    mask = np.zeros((2, 5), dtype=np.bool_)
    assert pattern.accepts(mask)
    mask[0, [0, 1]] = mask[1, [3, 4]] = True
    assert pattern.accepts(mask)
    mask[1, 0] = True
    assert not pattern.accepts(mask)  # three in a row
    assert not VNM(3, 2, 5).accepts(np.eye(3, 5, dtype=np.bool_)[:2])
    assert VNM(4, 2, 5).accepts(np.eye(4, 5, dtype=np.bool_))
    assert not VNM(5, 2, 5).accepts(np.eye(5, dtype=np.bool_))  # five live columns
    assert not pattern.accepts(np.zeros((2, 4), dtype=np.bool_))
    assert not pattern.accepts(np.zeros(5, dtype=np.bool_))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("64:1:8", ["N = 2", "1:8"]),
        ("64:4:8", ["N = 2", "sparse tensor cores"]),
        ("0:2:8", ["V of V:N:M", "at least 1"]),
        ("64:2:3", ["4..32"]),
        ("64:2:33", ["4..32"]),
    ],
)
def test_patterns_that_are_none_are_refused_with_a_reason(text: str, words: list[str]) -> None:
    """The message names the value and what would do."""
    with pytest.raises(ps.PatternError) as told:
        ps.parse_pattern(text)
    assert all(word in str(told.value) for word in words)


@pytest.mark.parametrize(("v", "m"), [(2.0, 8), (2, "8"), (True, 8), (2, None)])
def test_numbers_that_are_none_are_refused(v: Any, m: Any) -> None:
    """V and M are integers."""
    with pytest.raises(ps.PatternError, match="must be an integer"):
        VNM(v, 2, m)


def test_shapes_that_do_not_tile_name_the_axis_and_offer_padding() -> None:
    """Rows are multiples of V, columns of M; padding keeps the weight's own shape."""
    scores = np.abs(ps.instances.gaussian(6, 10, seed=5))
    with pytest.raises(ps.PatternError, match=r"6 rows do not split into groups of 4.*pad=True"):
        VNM(4, 2, 5).keep(scores)
    with pytest.raises(ps.PatternError, match="10 columns do not split into groups of 8"):
        VNM(2, 2, 8).keep(scores)
    result = ps.search(scores, "4:2:8", pad=True, stop=ps.MaxSteps(3))
    assert result.mask.shape == (6, 10)
    assert result.details["row_padding"] == 2
    assert result.details["padding"] == 6
