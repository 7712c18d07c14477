"""Tile-wise masks: pieces and overlay are the best, legality is exact, shares are by area."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns.tile import TileWise
from permsearch.patterns.tiling import best_tiles, overlay_limit, tiles_with_overlay
from permsearch.testing import check_pattern
from tests import reference_tile as reference
from tests import strategies


@st.composite
def matrices(draw: st.DrawFn, most: int = 6) -> tuple[NDArray[Any], int, int]:
    """Draw scores, the rows of a tile and an area that holds a piece of one."""
    rows, columns = draw(st.integers(1, most)), draw(st.integers(1, 5))
    g = draw(st.integers(1, rows + 1))
    area = draw(st.integers(min(g, rows), rows * columns))
    return draw(strategies.scores(rows, columns)), g, area


@settings(max_examples=40, deadline=None)
@given(drawn=matrices())
def test_pieces_are_the_best_of_all(drawn: tuple[NDArray[Any], int, int]) -> None:
    """Value as by a knapsack over every number of rows, and the mask has it and fits the area."""
    scores, g, area = drawn
    tiles = best_tiles(scores, g, area)
    assert tiles.value == pytest.approx(reference.best_value(scores, g, area), rel=1e-9, abs=0)
    mask = tiles.mask()
    assert mask.sum() == tiles.area <= area
    assert float(scores[mask].sum(dtype=np.float64)) == pytest.approx(tiles.value, rel=1e-9, abs=0)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.sampled_from([(2, 2), (3, 2), (2, 3), (4, 2)]),
    g=st.integers(1, 3),
    over=st.integers(1, 3),
    data=st.data(),
)
def test_overlay_comes_within_its_limit(
    shape: tuple[int, int], g: int, over: int, data: st.DataObject
) -> None:
    """What pieces and overlay hold is no more than the best of all and no less than its limit."""
    area = data.draw(st.integers(min(g, shape[0]), shape[0] * shape[1] - 1))
    scores = data.draw(strategies.scores(*shape)).astype(np.float64)
    tiles = tiles_with_overlay(scores, g, area, over)
    rest = np.sort(scores[~tiles.mask()])[::-1]
    found = float(scores[tiles.mask()].sum() + rest[:over].sum())
    best = reference.best_with_overlay(scores, g, area, over)
    close = 1e-9 * scores.sum()
    assert found <= best + close
    assert best <= overlay_limit(scores, g, area, over) + close
    alone = best_tiles(scores, g, area)
    left = np.sort(scores[~alone.mask()])[::-1]
    assert found >= alone.value + left[:over].sum() - close


def test_overlay_misses_less_than_a_piece() -> None:
    """On a matrix of some size the gap to the limit is a small part of a piece."""
    scores = np.abs(ps.instances.gaussian(96, 80, seed=3)).astype(np.float64)
    pattern = TileWise(16, 0.25, 0.02)
    area, over = pattern.areas(scores.shape)
    gap = overlay_limit(scores, 16, area, over) - pattern.retained(scores)
    assert 0 <= gap < scores.mean() * 16
    apart = best_tiles(scores, 16, area)
    later = apart.value + np.sort(scores[~apart.mask()])[-over:].sum()
    assert pattern.retained(scores) > later


@given(
    shape=st.sampled_from([(2, 2), (3, 2), (2, 3), (4, 2)]),
    g=st.integers(1, 3),
    kept=st.floats(0.3, 1.0),
    overlay=st.sampled_from([0.0, 0.13, 0.26]),
    bits=st.integers(0, 255),
)
def test_legality_is_exact(
    shape: tuple[int, int], g: int, kept: float, overlay: float, bits: int
) -> None:
    """A mask is accepted exactly when some choice of pieces covers it up to the overlay."""
    pattern = TileWise(g, kept, overlay)
    size = shape[0] * shape[1]
    area, over = pattern.areas(shape)
    if area < min(g, shape[0]):
        return
    mask = np.array([bits >> place & 1 for place in range(size)], dtype=bool).reshape(shape)
    assert pattern.accepts(mask) == reference.legal(mask, g, area, over)


@settings(max_examples=40, deadline=None)
@given(drawn=matrices(), taps=st.booleans(), overlay=st.booleans())
def test_conformance(drawn: tuple[NDArray[Any], int, int], taps: bool, overlay: bool) -> None:
    """The kit's promises, with and without taps and overlay."""
    scores, g, area = drawn
    over = 0.1 if overlay and scores.size > 10 else 0.0
    pattern = TileWise(g, min(1.0, area / scores.size + over), over)
    if pattern.areas(scores.shape)[0] < min(g, len(scores)):
        return
    shaped = scores.reshape(len(scores), 1, -1) if taps else scores
    check_pattern(pattern, shaped)


def test_rows_matter_to_pieces_beside_an_overlay() -> None:
    """Where everything but an overlay has to lie in pieces, rows still share these."""
    pattern = TileWise(3, 1.0, 0.1)
    assert pattern.axes == {"rows"}
    assert TileWise(3, 1.0).axes == set()
    scores = np.random.default_rng(0).random((6, 2), np.float32)
    moved = pattern.retained(scores[[3, 1, 5, 0, 4, 2]])
    assert moved != pytest.approx(pattern.retained(scores), rel=1e-6)
    check_pattern(pattern, scores)


@pytest.mark.parametrize("value", [1.0, 0.0, 1e-30])
def test_equal_scores_fill_the_area_exactly(value: float) -> None:
    """Under ties the number kept is the area, neither more nor less; the lower index stays."""
    scores = np.full((8, 6), value)
    mask = TileWise(4, 0.25).keep(scores)
    assert mask.sum() == (12 if value else mask.sum()) <= 12
    mask = TileWise(4, 0.5, 0.125).keep(np.ones((8, 6)))
    assert mask.sum() == 24


def test_a_low_last_tile_is_not_favoured() -> None:
    """Pieces count by their sum per area: two rows of ones are worth no more than four."""
    scores = np.ones((6, 10))
    scores[:4] = 1.001
    mask = TileWise(4, 0.5).keep(scores)
    assert mask[:4].sum() > mask[4:].sum()
    assert mask.sum() <= 30


def test_rows_at_the_end_may_be_dropped() -> None:
    """Dropping an empty output makes the pieces of the last tile lower, and more of them fit."""
    scores = np.array([[4.0, 3.0, 2.0], [4.0, 3.0, 2.0], [9.0, 8.0, 7.0], [0.0, 0.0, 0.0]])
    mask = TileWise(2, 0.5).keep(scores)
    assert mask[2].all()
    assert not mask[3].any()
    assert mask.sum() <= 6


@settings(max_examples=40, deadline=None)
@given(drawn=matrices(), over=st.integers(0, 3))
def test_no_order_of_the_rows_beats_the_limits(
    drawn: tuple[NDArray[Any], int, int], over: int
) -> None:
    """Every limit holds for the given order, with an overlay or without."""
    scores, g, area = drawn
    size = scores.size
    pattern = TileWise(g, min(1.0, (area + over) / size), min(over, size - area) / size)
    if pattern.areas(scores.shape)[0] < min(g, len(scores)):
        return
    value = pattern.retained(scores)
    assert all(value <= limit for limit, _ in pattern.limits(scores, frozenset({"rows"})))


@pytest.mark.parametrize("text", ["tile:128@0.25", "tile:64@0.3+0.01"])
def test_text_and_pattern_are_inverse(text: str) -> None:
    """A pattern's text names it."""
    assert str(ps.parse_pattern(text)) == text


def test_what_does_not_fit_is_told() -> None:
    """An overlay as large as the share, a share of less than a piece, and numbers that are none."""
    with pytest.raises(ps.PatternError, match="overlay is a part of the share"):
        TileWise(4, 0.25, 0.25)
    with pytest.raises(ps.PatternError, match=r"keeps 3 of the 64 entries.*piece of 4"):
        TileWise(4, 0.05).check((8, 8))
    with pytest.raises(ps.PatternError, match="G of tile"):
        TileWise(0, 0.25)
    with pytest.raises(ps.PatternError, match="must be a number"):
        TileWise(4, 0.25, "x")  # type: ignore[arg-type]
    TileWise(128, 0.25).check((10, 8))  # a lower last tile is legal
