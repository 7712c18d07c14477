"""Vector-wise masks: best, exact under ties, and refused with reasons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.patterns.vector import VectorWise
from permsearch.testing import check_pattern
from tests import reference_vector as reference
from tests import strategies

DENSITIES = (0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1.0)


@st.composite
def weights(draw: st.DrawFn) -> tuple[NDArray[Any], VectorWise]:
    """Draw a weight, with taps or without, and a pattern that it fits."""
    v, groups = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    columns, taps = draw(st.integers(1, 4)), draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    across = columns * int(np.prod(taps))
    scores = draw(strategies.scores(v * groups, across))
    balance = draw(st.sampled_from(["layer", "group"]))
    vectors = across if balance == "group" else across * groups
    kept = draw(st.floats(1 / vectors, 1.0))
    return scores.reshape(v * groups, columns, *taps), VectorWise(v, kept, balance)


@settings(max_examples=40, deadline=None)
@given(drawn=weights())
def test_vectors_that_stay_are_those_of_sorting(drawn: tuple[NDArray[Any], VectorWise]) -> None:
    """Value and mask are the twin's; the number kept is exact, ties go to the lower index."""
    scores, pattern = drawn
    by_group = pattern.balance == "group"
    expected = reference.retained_vectors(scores, pattern.v, pattern.kept, by_group=by_group)
    mask = pattern.keep(scores)
    assert pattern.retained(scores) == pytest.approx(expected, rel=1e-12, abs=0)
    groups = 1 if not by_group else len(scores) // pattern.v
    assert mask.sum() == pattern.v * groups * pattern.count(scores.shape)
    if scores.dtype == np.float32 or np.unique(scores).size == scores.size:
        kept = float(scores[mask].sum(dtype=np.float64))
        assert kept == pytest.approx(expected, rel=1e-12, abs=0)
    check_pattern(pattern, scores)


@given(seed=st.integers(0, 999), kept=st.sampled_from(DENSITIES), by_group=st.booleans())
def test_ties_go_to_the_lower_index(seed: int, kept: float, by_group: bool) -> None:
    """With few different whole numbers the mask is the twin's to the entry."""
    scores = np.random.default_rng(seed).integers(0, 3, (6, 10)).astype(np.float32)
    pattern = VectorWise(2, kept, "group" if by_group else "layer")
    expected = reference.keep_vectors(scores, 2, kept, by_group=by_group)
    assert np.array_equal(pattern.keep(scores), expected)


@pytest.mark.parametrize("kept", DENSITIES)
def test_the_loss_is_right_at_every_density(kept: float) -> None:
    """What is lost is what the mask drops, at any share and not only at a half."""
    scores = np.abs(ps.instances.gaussian(16, 24, seed=1)).astype(np.float64)
    for balance in ("layer", "group"):
        pattern = VectorWise(4, kept, balance)
        mask = pattern.keep(scores)
        lost = float(scores[~mask].sum())
        assert pattern.retained(scores) == pytest.approx(scores.sum() - lost, rel=1e-12)
        assert mask.mean() == pytest.approx(kept, abs=1 / 24)


def test_groups_are_rows_and_not_runs_of_the_flattened_weight() -> None:
    """A vector is one column of v rows even where the rows are not a multiple of its length."""
    scores = np.zeros((4, 3))
    scores[2:, 1] = 1.0
    mask = VectorWise(2, 1 / 6).keep(scores)
    assert np.array_equal(mask, scores > 0)


def test_equal_work_for_every_group() -> None:
    """By group, strong rows get no more vectors than weak ones; by layer they get them all."""
    scores = np.ones((4, 8))
    scores[:2] = 9.0
    by_group = VectorWise(2, 0.5, "group").keep(scores)
    by_layer = VectorWise(2, 0.5).keep(scores)
    assert by_group[:2].sum() == by_group[2:].sum() == 8
    assert by_layer[:2].all()
    assert not by_layer[2:].any()


@given(drawn=weights(), data=st.data())
def test_masks_are_accepted_up_to_their_count(
    drawn: tuple[NDArray[Any], VectorWise], data: st.DataObject
) -> None:
    """A subset of a mask is accepted; an entry in one vector more than allowed is not."""
    scores, pattern = drawn
    mask = pattern.keep(scores)
    subset = mask & (np.random.default_rng(data.draw(st.integers(0, 99))).random(mask.shape) < 0.5)
    assert pattern.accepts(mask)
    assert pattern.accepts(subset)
    if not mask.all():
        outside = np.argwhere(~mask)
        mask[tuple(outside[data.draw(st.integers(0, len(outside) - 1))])] = True
        assert not pattern.accepts(mask)


@settings(max_examples=40, deadline=None)
@given(drawn=weights())
def test_no_order_of_the_rows_beats_the_limits(drawn: tuple[NDArray[Any], VectorWise]) -> None:
    """Every limit holds for the given order and for sorted rows."""
    scores, pattern = drawn
    limits = list(pattern.limits(scores, frozenset({"rows"})))
    for rows in (np.arange(len(scores)), np.argsort(scores.reshape(len(scores), -1).sum(axis=1))):
        value = pattern.retained(scores[rows])
        assert all(value <= limit for limit, _ in limits)


@pytest.mark.parametrize("text", ["vector:32@0.25", "vector:64@0.125/group", "vector:1@1"])
def test_text_and_pattern_are_inverse(text: str) -> None:
    """A pattern's text names it."""
    assert str(ps.parse_pattern(text)) == text.replace("@1.0", "@1")
    assert ps.parse_pattern("vector:32@0.25/layer") == VectorWise(32, 0.25)


def test_what_does_not_fit_is_told() -> None:
    """Rows that do not split, shares out of range, and budgets that round to nothing."""
    with pytest.raises(ps.PatternError, match=r"10 rows do not split into groups of 4.*pad=True"):
        VectorWise(4, 0.5).check((10, 8))
    with pytest.raises(ps.PatternError, match=r"\(0, 1\]"):
        VectorWise(4, 0.0)
    with pytest.raises(ps.PatternError, match=r"keeps none of the 16 vectors.*0\.0625"):
        VectorWise(4, 0.05).check((8, 8))
    with pytest.raises(ps.PatternError, match="each group"):
        VectorWise(4, 0.1, "group").check((8, 8))
    with pytest.raises(ps.PatternError, match="balance"):
        VectorWise(4, 0.1, "row")  # type: ignore[arg-type]
    with pytest.raises(ps.PatternError, match="V of vector"):
        VectorWise(0, 0.5)


def test_rows_are_free_only_where_they_share() -> None:
    """Vectors of one row, or all of them kept, leave nothing to search."""
    assert VectorWise(2, 0.5).axes == {"rows"}
    assert VectorWise(1, 0.5).axes == VectorWise(2, 1.0).axes == frozenset()
