"""The fits and searches that the accuracy benchmarks are made of, against slow readable twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.accuracy import compensated, fitting, search_value
from benchmarks.accuracy.orders import LayerOrder
from permsearch.patterns import NM
from pruning import update
from pruning.scores import wanda_squared
from pruning.statistics import Inputs, Sums


@pytest.fixture
def layer() -> tuple[torch.Tensor, Inputs]:
    """Return a weight (12, 32) and the statistics of correlated inputs."""
    draw = torch.Generator().manual_seed(0)
    mixing = torch.randn(32, 32, generator=draw)
    sums = Sums("layer", gram=True)
    sums.add((torch.randn(400, 32, generator=draw) @ mixing)[None])
    return torch.randn(12, 32, generator=draw), sums.finish()


def test_masks_hold_their_pattern_in_their_order(layer: tuple[torch.Tensor, Inputs]) -> None:
    """Seen in its order, a mask is the pattern's best one."""
    weight, _ = layer
    draw = np.random.default_rng(2)
    order = LayerOrder(draw.permutation(12), draw.permutation(32))
    mask = fitting.masked(weight.abs(), order, NM(2, 4)).numpy()
    place = np.ix_(order.rows, order.cols)
    np.testing.assert_array_equal(mask[place], NM(2, 4).keep(weight.abs().numpy()[place]))


def test_what_is_left_is_the_error_of_the_refit(layer: tuple[torch.Tensor, Inputs]) -> None:
    """w_D^T ((H^-1)_DD)^-1 w_D is what the refit leaves, damping counted as more inputs."""
    weight, inputs = layer
    mask = fitting.masked(weight.abs(), LayerOrder(np.arange(12), np.arange(32)), NM(2, 4))
    inverse = compensated._inverse(inputs)
    solid = Inputs("damped", 1, inputs.squares, torch.linalg.inv(inverse)[None])
    new = update.refit(weight, mask, solid, 0.0)
    left = compensated._left(inverse, weight.double(), mask)
    assert left == pytest.approx(update.output_error(weight, new, solid), rel=1e-4)


def test_conditional_scores_lie_between(layer: tuple[torch.Tensor, Inputs]) -> None:
    """A price given half of the others is under Wanda squared's and over OBS's."""
    weight, inputs = layer
    half = compensated.SCORES["conditional"](weight, inputs)
    assert bool((half <= 1.1 * compensated.SCORES["Wanda squared"](weight, inputs)).all())
    assert bool((half >= 0.9 * compensated.SCORES["OBS"](weight, inputs)).all())


def test_swaps_lower_the_error_that_they_look_at(layer: tuple[torch.Tensor, Inputs]) -> None:
    """The order after swaps is an order, and leaves less of the sampled rows' error."""
    weight, inputs = layer
    values = wanda_squared(weight, inputs)
    cols = compensated.swapped(weight, values, np.arange(32), inputs, tries=40, rows=12)
    assert sorted(cols) == list(range(32))
    left = [
        compensated._left(
            compensated._inverse(inputs).float(), weight, compensated._mask(values, own)
        )
        for own in (np.arange(32), cols)
    ]
    assert left[1] < left[0]


def test_shuffles_reach_from_nothing_to_everything() -> None:
    """0 % leaves an order alone, and other shares move about that many columns."""
    order = LayerOrder(np.arange(2), np.random.default_rng(0).permutation(400))
    moved = [
        int((search_value.shuffled(order, percent, 1).cols != order.cols).sum())
        for percent in (0, 20, 100)
    ]
    assert moved[0] == 0
    assert 70 <= moved[1] <= 80
    assert moved[2] >= 390
    assert sorted(search_value.shuffled(order, 20, 1).cols) == list(range(400))
