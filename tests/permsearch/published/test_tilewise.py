"""Published tile-wise pruning: exact counts, no favour for short tiles, one ranking for all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.published.tilewise import targets, tile_wise
from tests import strategies


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=3),
    overlay=st.sampled_from([0.0, 0.1]),
    stages=st.integers(1, 3),
    apriori=st.sampled_from([0.0, 0.2]),
    data=st.data(),
)
def test_masks_are_legal_and_within_the_budget(
    sizes: list[tuple[int, int]], overlay: float, stages: int, apriori: float, data: st.DataObject
) -> None:
    """All layers together keep no more than the share, each a mask that its tiles can carry."""
    layers = [data.draw(strategies.scores(*size)) for size in sizes]
    pattern = ps.TileWise(3, 0.5, overlay)
    pruned = tile_wise(layers, pattern, stages=stages, apriori=apriori)
    total = sum(layer.size for layer in layers)
    assert sum(int(layer.mask.sum()) for layer in pruned) <= np.floor(0.5 * total + 1e-9)
    for scores, layer in zip(layers, pruned, strict=True):
        assert sorted(layer.rows) == list(range(len(scores)))
        stored = layer.mask[layer.rows]
        kept = max(1e-9, int(stored.sum()) / stored.size)
        own = ps.TileWise(3, min(1.0, kept + overlay), overlay) if overlay else ps.TileWise(3, kept)
        if not overlay and own.areas(stored.shape)[0] >= min(3, len(stored)):
            assert own.accepts(stored)


@pytest.mark.parametrize("stages", [1, 4])
def test_ties_are_cut_at_the_exact_count(stages: int) -> None:
    """A percentile keeps none or all of equal units; counting keeps the share."""
    (layer,) = tile_wise([np.ones((16, 16))], ps.TileWise(4, 0.25), stages=stages)
    assert layer.mask.sum() == 64


def test_norm_over_length_favours_the_short_last_tile() -> None:
    """Of equal scores it keeps the low tile first; the root mean square does not."""
    scores = np.ones((20, 8))  # half of the outputs stay: a tile of 8 and one of 2
    scores[10:] = 0.5
    pattern = ps.TileWise(8, 0.25)

    def kept_of_last(rule: str) -> int:
        (layer,) = tile_wise([scores], pattern, rule=rule)  # type: ignore[arg-type]
        return int(layer.mask[8:10].sum())

    assert kept_of_last("length") == 16
    assert kept_of_last("rms") < 16


def test_layers_compete_in_one_ranking() -> None:
    """A layer of larger scores keeps more than its share, a weak one less."""
    weak, strong = np.full((8, 8), 0.1), np.full((8, 8), 1.0)
    first, second = tile_wise([weak, strong], ps.TileWise(4, 0.5))
    assert first.mask.sum() == 0
    assert second.mask.all()


def test_apriori_tuning_overrules_the_ranking() -> None:
    """The fullest units stay and the emptiest go, whatever their norm."""
    scores = np.full((4, 8), 0.1)
    scores[0, 0] = 100.0  # a large norm, but nearly empty once single entries are pruned
    scores[1:, :5] = 1.0
    plain = tile_wise([scores], ps.TileWise(4, 0.5))[0].mask
    tuned = tile_wise([scores], ps.TileWise(4, 0.5), apriori=0.25)[0].mask
    assert plain[0].any()
    assert not tuned[0].any()
    assert tuned[3].any()


def test_overlay_takes_the_best_of_the_rest() -> None:
    """Single entries come back by their score, and the share includes them."""
    scores = np.full((4, 4), 0.5)
    scores[:2] = 1.0
    scores[3, 3] = 0.9
    mask = tile_wise([scores], ps.TileWise(2, 9 / 16, 1 / 16))[0].mask
    assert mask[3, 3]
    assert mask[:2].all()
    assert mask.sum() == 9


def test_targets_fall_evenly() -> None:
    """The last stage is the target itself."""
    assert targets(0.25, 1) == (0.25,)
    assert targets(0.4, 2) == pytest.approx((0.7, 0.4))
