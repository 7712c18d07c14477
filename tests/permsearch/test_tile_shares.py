"""Tile-wise shares of several layers: one budget, exactly, spent where it keeps most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.published.tilewise import tile_wise
from tests import strategies


@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(2, 6)), min_size=1, max_size=4),
    overlay=st.sampled_from([0.0, 0.1]),
    data=st.data(),
)
def test_shares_add_up_to_the_budget(
    sizes: list[tuple[int, int]], overlay: float, data: st.DataObject
) -> None:
    """Every layer carries its pattern, and together they keep the budget but for a low piece."""
    layers = {f"layer {k}": data.draw(strategies.scores(*size)) for k, size in enumerate(sizes)}
    whole = ps.TileWise(3, 0.6, overlay)
    total = sum(layer.size for layer in layers.values())
    try:
        shares = ps.tile_shares(layers, whole)
    except ps.PatternError:
        least = sum(min(3, len(layer)) for layer in layers.values())
        assert 0.6 * total - int(overlay * total) < least + 1
        return
    used = 0
    for name, own in shares.items():
        own.check(layers[name].shape)
        used += sum(own.areas(layers[name].shape))
    assert 0.6 * total - 3 - 1 < used <= 0.6 * total + 1e-6


def test_equal_scores_are_cut_at_the_exact_count() -> None:
    """Ties between layers: the budget is used up and not exceeded."""
    shares = ps.tile_shares({"a": np.ones((8, 8)), "b": np.ones((8, 8))}, "tile:4@0.25")
    areas = [own.areas((8, 8))[0] for own in shares.values()]
    assert sum(areas) == 32
    assert min(areas) >= 4


@pytest.mark.parametrize("text", ["tile:16@0.25", "tile:16@0.25+0.02"])
def test_more_is_kept_than_by_published_ranking(text: str) -> None:
    """With orders of its own, each layer's share keeps more than the published masks."""
    layers = {
        "small": 0.5 * np.abs(ps.instances.gaussian(64, 48, seed=1)),
        "mixed": np.abs(ps.instances.lognormal_columns(48, 64, seed=2)),
        "low": np.abs(ps.instances.gaussian(40, 32, seed=3)),
    }
    pattern = ps.parse_pattern(text)
    assert isinstance(pattern, ps.TileWise)
    pruned = tile_wise(list(layers.values()), pattern)
    published = sum(
        float(scores[layer.mask].sum())
        for scores, layer in zip(layers.values(), pruned, strict=True)
    )
    shares = ps.tile_shares(layers, pattern)
    found = {
        name: ps.search(layers[name], own, stop=ps.MaxSteps(3000)) for name, own in shares.items()
    }
    assert sum(result.score for result in found.values()) > published
    orders = {
        name: result.solution.get("rows", np.arange(len(layers[name])))
        for name, result in found.items()
    }
    again = ps.tile_shares(layers, pattern, orders=orders)
    value = sum(own.retained(layers[name][orders[name]]) for name, own in again.items())
    assert value >= sum(result.score for result in found.values()) * 0.999


def test_what_cannot_be_shared_is_told() -> None:
    """Another pattern, a budget below one piece a layer, and an order of no layer."""
    layers = {"a": np.ones((8, 8)), "b": np.ones((8, 8))}
    with pytest.raises(ps.PatternError, match="needs a tile-wise pattern, got 2:4"):
        ps.tile_shares(layers, "2:4")
    with pytest.raises(ps.PatternError, match="one piece of each needs 16"):
        ps.tile_shares(layers, "tile:8@0.1")
    with pytest.raises(ps.UnknownName, match="unknown layer 'c'"):
        ps.tile_shares(layers, "tile:4@0.5", orders={"c": np.arange(8)})
    with pytest.raises(ps.ProblemError, match="one layer at least"):
        ps.tile_shares({}, "tile:4@0.5")
