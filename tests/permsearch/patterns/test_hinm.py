"""Hierarchical N:M: what tiles keep, left to themselves or by orders of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns import NM, HiNM
from permsearch.patterns.grouping import fitting_groups, groupable
from permsearch.testing import check_pattern
from tests import reference_hinm as reference
from tests import strategies


@st.composite
def weights(draw: st.DrawFn) -> tuple[NDArray[Any], HiNM]:
    """Draw a weight, with taps or without, and a pattern that it fits."""
    v, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    groups = draw(st.integers(1, 2))
    columns = groups * m + draw(st.integers(0, 3))
    taps = draw(st.sampled_from([(), (1,), (2,), (1, 2)]))
    rows = v * draw(st.integers(1, 2))
    scores = draw(strategies.scores(rows, columns * int(np.prod(taps))))
    kept = draw(st.floats(groups * m / columns, min(1.0, (groups * m + 0.9) / columns)))
    return scores.reshape(rows, columns, *taps), HiNM(v, kept, draw(st.integers(1, m)), m)


@given(drawn=weights(), seed=strategies.seeds)
def test_masks_and_values_are_those_of_sorting(drawn: tuple[NDArray[Any], HiNM], seed: int) -> None:
    """For any orders of the tiles every row keeps the N largest of every group."""
    scores, pattern = drawn
    rng = np.random.default_rng(seed)
    count = pattern.count(scores.shape[1])
    tiles = reference.tiles_of(scores, pattern.v)
    orders = np.stack([rng.permutation(scores.shape[1])[:count] for _ in tiles])
    mask = pattern.keep(scores, orders)
    parts = zip(tiles, orders.tolist(), reference.tiles_of(mask, pattern.v), strict=True)
    for tile, order, found in parts:
        assert np.array_equal(found, reference.keep_tile(tile, order, pattern.n, pattern.m))
    kept = [
        reference.kept_of(tile, order, pattern.n, pattern.m)
        for tile, order in zip(tiles, orders.tolist(), strict=True)
    ]
    assert pattern.retained(scores, orders) == pytest.approx(sum(kept), rel=1e-12, abs=0)
    assert pattern.accepts(mask)


@given(drawn=weights())
def test_tiles_left_to_themselves_pass_the_kit(drawn: tuple[NDArray[Any], HiNM]) -> None:
    """The mask is the pattern's, and masking what was masked loses nothing."""
    scores, pattern = drawn
    check_pattern(pattern, scores)


def test_tiles_left_to_themselves_keep_the_strongest_in_stored_order() -> None:
    """The columns of the largest sums, at shares other than one half as well; lower index first."""
    rng = np.random.default_rng(1)
    for kept in (0.3, 0.5, 0.8):
        for scores in (rng.random((6, 11)) + 0.1, rng.integers(1, 3, (6, 11)).astype(float)):
            pattern = HiNM(3, kept, 2, 3)
            orders = pattern.tile_orders(scores)
            for tile, order in zip(reference.tiles_of(scores, 3), orders, strict=True):
                assert order.tolist() == reference.strongest(tile, pattern.count(11))


def test_everything_kept_is_plain_sparsity() -> None:
    """A share of one leaves N:M in stored order."""
    scores = np.abs(ps.instances.gaussian(6, 12, seed=3))
    assert np.array_equal(HiNM(3, 1, 2, 4).keep(scores), NM(2, 4).keep(scores))


def test_counts_are_whole_groups() -> None:
    """Rounded down to groups, with floats that lie beside whole numbers counted as those."""
    assert HiNM(2, 0.5, 2, 4).count(384) == 192
    assert HiNM(2, 0.5, 2, 4).count(30) == 12
    assert HiNM(2, 0.1, 1, 1).count(30) == 3
    assert HiNM(2, 1.0, 2, 4).count(7) == 4


@given(seed=strategies.seeds)
def test_groupings_are_found_exactly_where_there_are_any(seed: int) -> None:
    """On small tiles the decision is that of trying every choice and grouping."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 5))
    count = m * int(rng.integers(1, 3))
    n = int(rng.integers(1, m + 1))
    columns = count + int(rng.integers(0, 2))
    tile = rng.random((int(rng.integers(1, 4)), columns)) < rng.choice([0.3, 0.6])
    expected = reference.fits(tile, count, n, m)
    pattern = HiNM(len(tile), min(1.0, (count + 0.5) / columns), n, m)
    assert pattern.accepts(tile) == expected
    if tile.any(axis=0).sum() <= count:
        assert groupable(tile, count, n, m) == expected
        assert (fitting_groups(tile, count, n, m) is not None) == expected


@pytest.mark.parametrize("v", [16, 32])
def test_full_masks_of_real_size_are_recognised_and_wrong_ones_refused(v: int) -> None:
    """The orders of the tiles need not be told; one entry in a wrong place is found out."""
    rng = np.random.default_rng(v)
    scores = np.abs(ps.instances.gaussian(v, 96, seed=v))
    pattern = HiNM(v, 0.5, 2, 4)
    order = rng.permutation(96)[:48]
    mask = pattern.keep(scores, order[None])
    assert pattern.accepts(mask)
    leaves = next(c for c in order[:4] if mask[0, c])
    enters = next(c for c in order[4:8] if not mask[0, c])  # of another group
    mask[0, enters] = True
    assert not pattern.accepts(mask)  # one entry too many in the row
    mask[0, leaves] = False
    assert not pattern.accepts(mask)  # one group has three, another one
    many = np.zeros((v, 96), dtype=np.bool_)
    many[0, :24] = many[1, 24:48] = many[2, 48] = True
    assert not pattern.accepts(many)  # 49 live columns


def test_a_masked_weight_keeps_its_mask() -> None:
    """Tiles that were masked before, by orders that are no longer known, lose nothing."""
    rng = np.random.default_rng(5)
    scores = np.abs(ps.instances.gaussian(64, 64, seed=5))
    pattern = HiNM(32, 0.5, 2, 4)
    mask = pattern.keep(scores, np.stack([rng.permutation(64)[:32] for _ in range(2)]))
    assert np.array_equal(pattern.keep(np.where(mask, scores, 0)), mask)


@pytest.mark.parametrize(
    ("tiles", "words"),
    [
        (np.zeros((2, 3), int), r"shape \(2, 4\)"),
        (np.zeros((2, 4)), "integers"),
        (np.zeros((2, 4), int), "4 different columns of 0..7"),
        (np.array([[0, 1, 2, 8], [0, 1, 2, 3]]), "4 different columns"),
        (np.array([[0, 1, 2, -1], [0, 1, 2, 3]]), "4 different columns"),
    ],
)
def test_orders_of_tiles_that_are_none_are_refused(tiles: NDArray[Any], words: str) -> None:
    """Shape, type and columns are checked, and named."""
    scores = np.ones((4, 8))
    with pytest.raises(ps.PatternError, match=words):
        HiNM(2, 0.5, 2, 4).keep(scores, tiles)
    with pytest.raises(ps.PatternError, match=words):
        HiNM(2, 0.5, 2, 4).retained(scores, tiles)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hinm:0@0.5:2:4", "V of hinm must be at least 1"),
        ("hinm:2@0:2:4", r"\(0, 1\]"),
        ("hinm:2@1.5:2:4", r"\(0, 1\]"),
        ("hinm:2@0.5:5:4", "1 <= N <= M"),
        ("hinm:2@0.5:2:33", "1..32"),
    ],
)
def test_patterns_that_are_none_are_refused_with_a_reason(text: str, words: str) -> None:
    """The message names the value and what would do."""
    with pytest.raises(ps.PatternError, match=words):
        ps.parse_pattern(text)


def test_shapes_that_do_not_fit_are_refused_with_a_reason() -> None:
    """Rows that do not tile offer padding; a share that holds no group says so."""
    with pytest.raises(ps.PatternError, match=r"5 rows do not split into groups of 2.*pad=True"):
        HiNM(2, 0.5, 2, 4).keep(np.ones((5, 8)))
    with pytest.raises(ps.PatternError, match=r"0.25 of 8 columns holds no group of 4"):
        HiNM(2, 0.25, 2, 4).keep(np.ones((4, 8)))
    result = ps.search(np.abs(ps.instances.gaussian(5, 8, seed=1)), "hinm:2@0.5:2:4", pad=True)
    assert result.mask.shape == (5, 8)
    assert result.permuted_mask.shape == (6, 8)


@given(kept=st.floats(1e-9, 1), v=st.integers(1, 99), n=st.integers(1, 8))
def test_texts_name_patterns(kept: float, v: int, n: int) -> None:
    """A pattern's text gives the same pattern again."""
    pattern = HiNM(v, kept, n, 8)
    assert ps.parse_pattern(str(pattern)) == pattern
