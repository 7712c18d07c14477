"""Pruning by recipe: what is selected, what the model computes, and what is left of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_model
from torch import nn
from torch.nn import functional

import permsearch as ps
import pruning
import pruning.pipeline
from permsearch.errors import ScoresError, UnknownName
from permsearch.io.select import NothingEligible
from pruning.errors import CalibrationError, RecipeError, StateError, ValuesLost
from pruning.layers import turned
from pruning.recipe import LayerRule, Recipe, as_recipe

STEPS = {"steps": 200, "seed": 1}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Block(nn.Module):
    """A residual stream with a hidden layer, a norm and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 6)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value = self.stem(value)
        value = value + self.down(functional.gelu(self.up(self.norm(value))))
        found: torch.Tensor = self.head(value)
        return found


def block() -> Block:
    """Return a block with fixed values."""
    torch.manual_seed(0)
    return Block()


def recipe(method: str = "mask", **more: Any) -> dict[str, Any]:
    """Return a recipe for all but the stem."""
    rules = [{"match": "stem", "pattern": "dense"}]
    return {**STEPS, "layer": [*rules, {"match": "*", "pattern": "2:4", "method": method, **more}]}


def data() -> torch.Tensor:
    """Return inputs that go along with one another."""
    return drawn(200, 8) @ (torch.eye(8) + 0.5 * drawn(8, 8, seed=1))


@pytest.mark.parametrize("method", ["mask", "refit", "sparsegpt", "sparsegpt+refit"])
def test_pruned_weights_are_those_of_the_dense_model_in_order(method: str) -> None:
    """Masks hold in storage order; the pruned model is the dense one with masked weights."""
    model, dense = block(), block()
    result = pruning.prune(
        model, recipe(method), example_inputs=data()[:3], calibration=data().split(50)
    )
    masks = pruning.masks_of(model)
    assert set(masks) == {"up.weight", "down.weight", "head.weight"} == set(result.bundle)
    for name, mask in masks.items():
        assert ps.NM(2, 4).accepts(mask.numpy())
        assert int(mask.sum()) == mask.numel() // 2
        assert bool((model.get_submodule(name[:-7]).weight[~mask] == 0).all())
    assert result.search is not None
    assert result.search.score > result.search.baseline
    assert result.report is not None
    assert result.report.same
    assert result.density == pytest.approx((128 + (512 + 512 + 96) / 2) / 1248)
    if method == "mask":  # the same function as the dense model with masks in its own layout
        result.bundle.apply_(dense)
        assert torch.allclose(model(data()), dense(data()), atol=1e-5)


@pytest.mark.parametrize("method", ["refit", "sparsegpt+refit"])
def test_fitted_weights_come_by_an_export(method: str, tmp_path: Path) -> None:
    """The way out that the warning names: exported weights and the bundle make the pruned model."""
    model, fresh = block(), block()
    result = pruning.prune(model, recipe(method), example_inputs=data()[:3], calibration=[data()])
    with pytest.warns(ValuesLost, match="Load the pruned model's own weights first"):
        result.bundle.apply_(copy.deepcopy(fresh))
    pruning.export(result.bundle, model, to="safetensors", path=tmp_path / "pruned.safetensors")
    load_model(fresh, tmp_path / "pruned.safetensors")
    result.bundle.apply_(fresh)  # warns of nothing
    assert torch.equal(fresh(data()), model(data()))
    after = pruning.current_bundle(result.bundle, model)
    pruning.detach_masks_(model)
    after.apply_(model)  # nor this


@pytest.mark.parametrize(
    ("method", "calibration", "comparable"),
    [
        ("mask", "together", True),
        ("refit", "together", True),
        ("refit", "sequential", False),
        ("sparsegpt+refit", "together", False),
    ],
)
def test_shares_are_told_where_they_chose_the_mask(
    method: str, calibration: str, comparable: bool
) -> None:
    """What another criterion chose is not held against the scores that orders were searched by."""
    model, own = block(), {**recipe(method), "calibration": calibration}
    result = pruning.prune(model, own, example_inputs=data()[:3], calibration=[data()])
    [line] = [line for line in str(result).splitlines() if line.startswith("up.weight")]
    assert line.startswith(f"up.weight: 2:4 by {method}")
    assert ("unordered" in line) == comparable
    assert ("output error" in line) == (method != "mask")


@pytest.mark.parametrize("solver", ["none", "auto"])
def test_compensation_and_refits_help(solver: str) -> None:
    """With the same orders, outputs stray less with SparseGPT, and less again with the refit."""
    errors = {}
    for method in ("mask", "sparsegpt", "refit"):
        model, expected = block(), block()(data())
        own = {**recipe(method), "solver": solver}
        pruning.prune(model, own, example_inputs=data()[:3], calibration=[data()])
        errors[method] = (model(data()) - expected).square().mean().item()
    assert errors["refit"] < errors["sparsegpt"] < errors["mask"]


def test_columns_may_be_gathered() -> None:
    """A layer that no free order reaches gets an order of its own, and its cost is told."""
    model, dense = block(), block()
    both = [{"match": "stem", "pattern": "2:4", "gather": True}, {"match": "*", "pattern": "2:4"}]
    result = pruning.prune(
        model, {**STEPS, "layer": both}, example_inputs=data()[:3], calibration=[data()]
    )
    assert [cost.layer for cost in result.gathers] == ["stem"]
    assert "stem.layer.weight" in pruning.masks_of(model)
    assert ps.NM(2, 4).accepts(pruning.masks_of(model)["stem.layer.weight"].numpy())
    result.bundle.apply_(dense)
    assert torch.allclose(model(data()), dense(data()), atol=1e-5)


def test_training_goes_on_with_the_optimizer() -> None:
    """The optimizer's state moves with the weights, and the masks outlive its steps."""
    model = block()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(data()).square().mean().backward()
        optimizer.step()
    pruning.prune(model, recipe(), example_inputs=data()[:3], optimizer=optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        model(data()).square().mean().backward()
        optimizer.step()
    masks = pruning.detach_masks_(model)
    for name, mask in masks.items():
        assert bool((model.get_parameter(name)[~mask] == 0).all())


def test_the_first_match_wins_and_matches_must_select() -> None:
    """Rules are tried in order; one that selects nothing is an error that says why."""
    model = block()
    network = pruning.trace(model, (data()[:3],))
    both = Recipe((LayerRule("down", "1:4"), LayerRule("*", "2:4")))
    plan = pruning.pipeline.make_plan(model, both, network, calibrated=False)
    patterns = {layer.tensor: str(layer.rule.pattern) for layer in plan.layers}
    assert patterns == {
        "stem.weight": "2:4",
        "up.weight": "2:4",
        "down.weight": "1:4",
        "head.weight": "2:4",
    }
    for wrong, why in (
        (Recipe((LayerRule("dwon", "2:4"),)), "selects nothing.*did you mean 'down'"),
        (Recipe((LayerRule("*", "2:4"), LayerRule("down", "1:4"))), "stands before it"),
        (Recipe((LayerRule("norm*", "2:4"),)), "selects nothing"),
    ):
        with pytest.raises(RecipeError, match=why):
            pruning.prune(model, wrong, example_inputs=data()[:3])
    assert pruning.masks_of(model) == {}


def test_recipes_are_read_strictly(tmp_path: Path) -> None:
    """A TOML recipe reads back; unknown keys, methods and patterns are told with the file."""
    path = tmp_path / "recipe.toml"
    text = 'seconds = 2.5\n[[layer]]\nmatch = ["a*", "b"]\npattern = "2:4"\nmethod = "refit"\n'
    path.write_text(text, "utf-8")
    read = as_recipe(path)
    assert read == Recipe((LayerRule(("a*", "b"), "2:4", method="refit"),), seconds=2.5)
    assert as_recipe(str(path)) == read
    assert str(read.stop) == str(ps.MaxSeconds(2.5))
    for wrong, why in (
        ("sedons = 2", r"recipe.toml.*sedons.*did you mean 'seconds'|'seed'"),
        ("", r"\[\[layer\]\]"),
        ("[[layer]]\nmatch = '*'", "lacks pattern"),
        ("[[layer]]\nmatch = '*'\npattern = '2:4'\nmethd = 'mask'", "did you mean 'method'"),
        ("[[layer]]\nmatch = '*'\npattern = '2:4'\nmethod = 'refti'", "did you mean 'refit'"),
        ("[[layer]]\nmatch = '*'\npattern = '5:4'", "5:4"),
        ("[[layer]]\nmatch = '*'\npattern = '2:4'\nscores = 'wnada'", "did you mean 'wanda'"),
        ("[[layer]]\nmatch = 3\npattern = '2:4'", "glob"),
        ("[[layer]]\nmatch = '*'\npattern = 'vector:4@0.5'\nmethod = 'sparsegpt'", "refit"),
        ("seed = [", "cannot be read"),
    ):
        path.write_text(wrong, "utf-8")
        with pytest.raises(RecipeError, match=why):
            Recipe.read(path)


def test_what_cannot_be_had_is_refused_before_anything_changes() -> None:
    """Missing, empty or useless calibration, and masks that are there already, change nothing."""
    model = block()
    before = copy.deepcopy(model.state_dict())
    example = data()[:3]
    for own, batches, kind, why in (
        (recipe("refit"), None, RecipeError, "needs calibration"),
        (recipe(scores="wanda"), None, RecipeError, "needs calibration"),
        (recipe("refit"), [], CalibrationError, "no batches"),
        (recipe(), [torch.full((2, 8), float("nan"))], CalibrationError, "NaN"),
    ):
        with pytest.raises(kind, match=why):
            pruning.prune(model, own, example_inputs=example, calibration=batches)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    pruning.prune(model, "2:4", example_inputs=example)
    with pytest.raises(StateError, match="masks already"):
        pruning.prune(model, "2:4", example_inputs=example)


@pytest.mark.parametrize("solver", ["none", "auto"])
def test_weights_that_are_no_numbers_are_told(solver: str) -> None:
    """A NaN or an infinity in a weight is refused with layer and index, whatever the search."""
    for value in (float("nan"), float("-inf")):
        model = block()
        with torch.no_grad():
            model.down.weight[2, 5] = value
        before = model.up.weight.clone()
        with pytest.raises(ScoresError, match=r"down\.weight.*index \(2, 5\)"):
            pruning.prune(model, {**recipe(), "solver": solver}, example_inputs=data()[:3])
        assert torch.equal(model.up.weight, before)


@pytest.mark.parametrize("pattern", ["1:4", "block:4x4@0.5", "vector:4@0.5", "4:2:8"])
def test_other_patterns(pattern: str) -> None:
    """Patterns that look at rows too are masked in storage order and refitted."""
    model, dense = block(), block()
    own = recipe("refit")
    own["layer"] = [{"match": ["up", "down"], "pattern": pattern, "method": "refit"}]
    result = pruning.prune(model, own, example_inputs=data()[:3], calibration=[data()])
    for name, mask in pruning.masks_of(model).items():
        assert ps.parse_pattern(pattern).accepts(mask.numpy())
        assert result.bundle[name].record["retained"] >= result.bundle[name].record["baseline"]
    with pytest.warns(ValuesLost, match=r"up\.weight.*'refit' changed the kept values"):
        result.bundle.apply_(dense)  # its masks, in the layout of the dense model
    assert {n: int(m.sum()) for n, m in pruning.masks_of(dense).items()} == {
        n: int(m.sum()) for n, m in pruning.masks_of(model).items()
    }


def test_wrapped_and_low_precision_models() -> None:
    """Under DataParallel names are bare; bfloat16 weights keep their type, and their masks."""
    wide = block()
    wide.load_state_dict({k: v.bfloat16().float() for k, v in wide.state_dict().items()})
    narrow = nn.DataParallel(copy.deepcopy(wide).bfloat16())
    network = {}
    for model, example in ((wide, data()[:3]), (narrow, data()[:3].bfloat16())):
        result = pruning.prune(model, recipe(), example_inputs=example)
        network[model] = {n: m.mask for n, m in result.bundle.items()}
    assert set(network[wide]) == set(network[narrow])
    for name, mask in network[wide].items():
        assert bool((mask == network[narrow][name]).all())
    assert narrow.module.up.weight.dtype == torch.bfloat16


class Odd(nn.Module):
    """A transposed convolution and a recurrent layer, whose inputs lie elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3), nn.ConvTranspose2d(8, 8, 3)
        self.lstm = nn.LSTM(8, 12, batch_first=True)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the states."""
        found: torch.Tensor = self.lstm(self.second(self.first(value)).flatten(2).transpose(1, 2))[
            0
        ]
        return found


def test_axes_and_recurrent_layers() -> None:
    """Groups lie along axis 0 of a transposed convolution; unseen inputs get another score."""
    torch.manual_seed(0)
    model, value = Odd(), drawn(2, 4, 5, 5)
    dense = copy.deepcopy(model)
    result = pruning.prune(
        model,
        {**STEPS, "layer": [{"match": "*", "pattern": "2:4"}]},
        example_inputs=value,
        calibration=[value],
    )
    masks = pruning.masks_of(model)
    assert ps.NM(2, 4).accepts(turned(masks["second.weight"], 0).contiguous().numpy())
    notes = {layer.tensor: layer.note for layer in result.plan.layers}
    assert "energy" in notes["lstm.weight_hh_l0"]
    result.bundle.apply_(dense)
    assert torch.allclose(model(value), dense(value), atol=1e-5)
    with pytest.raises(RecipeError, match="Gram matrix"):
        pruning.prune(
            Odd(),
            {"layer": [{"match": "*", "pattern": "2:4", "method": "refit"}]},
            example_inputs=value,
            calibration=[value],
        )


def test_nothing_eligible_is_an_error() -> None:
    """Where no layer can carry the pattern the reasons are told, and unknown solvers are."""
    with pytest.raises(NothingEligible, match=r"head\.weight"):
        pruning.prune(block(), {"layer": [{"match": "head", "pattern": "1:32"}]},
                      example_inputs=data()[:3])  # fmt: skip
    with pytest.raises(UnknownName, match="solver"):
        Recipe((LayerRule("*", "2:4"),), solver="atuo")
