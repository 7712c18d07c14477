"""Pruning by recipe, further: calibration by blocks, choices by output error, OBC, targets."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import permsearch as ps
import pruning
from permsearch.errors import UnknownName
from pruning.calibrate import calibrate
from pruning.candidates import ways
from pruning.errors import RecipeError, StateError
from pruning.pipeline import make_plan
from pruning.pruned import column_order
from pruning.recipe import Recipe, as_recipe
from pruning.reorder import Move
from pruning.update import output_error, refit


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Layer(nn.Module):
    """A residual block with a norm and a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the stream after this block."""
        found: torch.Tensor = value + self.down(functional.gelu(self.up(self.norm(value))))
        return found


class Net(nn.Module):
    """Blocks between a stem and a head; the stream is one variable that all blocks read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(8, 16)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(16, 8)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value = self.stem(value)
        for layer in self.layers:
            value = layer(value)
        found: torch.Tensor = self.head(value)
        return found


def data() -> torch.Tensor:
    """Return inputs that go along with one another."""
    return drawn(400, 8) @ (torch.eye(8) + 0.5 * drawn(8, 8, seed=1))


def pruned(model: nn.Module, method: str = "refit", **more: Any) -> pruning.PruneResult:
    """Prune all but the stem; further keys are the recipe's, but for `layer`."""
    rule = {"match": "*", "pattern": "2:4", "method": method, **more.pop("layer", {})}
    layers = [{"match": "stem", "pattern": "dense"}, rule]
    recipe = {"steps": 40, "seed": 1, "solver": "swap", "layer": layers, **more}
    return pruning.prune(
        model, recipe, example_inputs=data()[:3], calibration=iter(data().split(100))
    )


def errors(result: pruning.PruneResult) -> dict[str, float]:
    """Return the output error of every layer."""
    return {name: entry.record["output_error"] for name, entry in result.bundle.items()}


@pytest.mark.parametrize(
    ("solver", "method"),
    [("none", "refit"), ("none", "obc"), ("swap", "mask"), ("swap", "sparsegpt")],
)
def test_blocks_come_to_what_one_pass_comes_to(solver: str, method: str) -> None:
    """With dense inputs, weights and masks do not depend on how many layers are seen at a time."""
    models = [Net(), Net()]
    modes = ("together", "blocks")
    found = [
        pruned(model, method, solver=solver, calibration=mode)
        for model, mode in zip(models, modes, strict=True)
    ]
    for name, entry in found[0].bundle.items():
        assert (entry.mask == found[1].bundle[name].mask).all()
    for one, two in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    if method != "mask":
        assert errors(found[0]) == pytest.approx(errors(found[1]), rel=1e-3)


def test_gram_matrices_for_scores_alone_are_seen_by_blocks_too() -> None:
    """A score that is made of Gram matrices gives the same masks by blocks as in one pass."""
    layer = {"scores": "obs_diagonal"}
    one, two = (
        pruned(Net(), "mask", layer=layer, calibration=mode) for mode in ("together", "blocks")
    )
    for name, entry in one.bundle.items():
        assert (entry.mask == two.bundle[name].mask).all()


def test_sequential_refits_are_those_of_the_pruned_net() -> None:
    """Each block is fitted to the inputs that it gets now, with the masks that these ask for."""
    model = Net()
    dense = copy.deepcopy(model)
    result = pruned(model, solver="none", calibration="sequential")
    assert result.bundle.settings["calibration"] == "sequential"
    masks = pruning.masks_of(model)
    partly = copy.deepcopy(dense)  # the net as it was when its last block was pruned
    for block in (0, 1):
        for leaf in ("up", "down"):
            part = model.layers[block].get_submodule(leaf)
            partly.layers[block].get_submodule(leaf).weight = nn.Parameter(part.weight.detach())
    seen = calibrate(partly, data().split(100), gram=True)["layers.2.up.weight"]
    weight = dense.layers[2].up.weight.detach()
    scores = pruning.scores.wanda_squared(weight, seen)
    mask = torch.from_numpy(ps.NM(2, 4).keep(scores.numpy()))
    assert torch.equal(masks["layers.2.up.weight"], mask)
    expected = refit(weight, mask, seen)
    torch.testing.assert_close(model.layers[2].up.weight.detach(), expected, rtol=1e-4, atol=1e-5)


def test_sequential_pruning_strays_less() -> None:
    """On other data of the kind, what blocks make up for each other lowers the error at the end."""
    held_out = drawn(400, 8, seed=5) @ (torch.eye(8) + 0.5 * drawn(8, 8, seed=1))
    with torch.no_grad():
        expected = Net()(held_out)
    for method in ("mask", "refit"):
        strayed = {}
        for mode in ("together", "sequential"):
            model = Net()
            pruned(model, method, calibration=mode, solver="none")
            strayed[mode] = float((model(held_out).detach() - expected).square().mean())
        assert strayed["sequential"] < strayed["together"]


def test_the_plan_tells_blocks_and_their_memory() -> None:
    """Without calibrating anything, the most memory at a time is that of one block."""
    model = Net()
    network = pruning.trace(model, (data()[:3],))
    rules = [{"match": "*", "pattern": "2:4", "method": "refit"}]
    whole = make_plan(model, as_recipe({"layer": rules}), network, calibrated=True)
    split = as_recipe({"layer": rules, "calibration": "blocks"})
    blocks = make_plan(model, split, network, calibrated=True)
    one = 8 * (16 * 16 + 32 * 32)
    assert whole.gram_bytes == 3 * one + 8 * (8 * 8 + 16 * 16)
    assert blocks.gram_bytes == one
    assert "at a time, in 3 blocks" in str(blocks)
    named = as_recipe({"layer": rules, "calibration": "blocks", "blocks": "layers.0"})
    assert make_plan(model, named, network, calibrated=True).blocks == ("layers.0",)


def test_gathers_and_blocks_go_together() -> None:
    """A layer behind an index of its input is seen by its new name, and masked in its order."""
    for mode in ("blocks", "sequential"):
        model, expected = Net(), Net()(data()).detach()
        both = [
            {"match": "stem", "pattern": "2:4", "gather": True, "method": "refit"},
            {"match": "*", "pattern": "2:4", "method": "sparsegpt"},
        ]
        result = pruning.prune(
            model,
            {"steps": 100, "calibration": mode, "layer": both},
            example_inputs=data()[:3],
            calibration=[data()],
        )
        assert ps.NM(2, 4).accepts(pruning.masks_of(model)["stem.layer.weight"].numpy())
        assert result.bundle["stem.weight"].record["output_error"] < 0.2
        strayed = (model(data()).detach() - expected).square().sum()
        assert strayed < 0.2 * expected.square().sum()


@pytest.mark.parametrize(
    ("method", "mode"), [("mask", "together"), ("refit", "blocks"), ("sparsegpt", "together")]
)
def test_a_choice_of_orders_is_never_worse(method: str, mode: str) -> None:
    """Summed over layers, errors are at most those of the searched order; the choice is told."""
    keys = {"calibration": mode, "solver": "swap", "layer": {"scores": "magnitude"}}
    best = pruned(Net(), method, **copy.deepcopy(keys), rerank=4)
    told = best.bundle.settings["choice"]
    assert told["error"] <= told["error_searched"]
    assert sum(told["wins"].values()) == 4  # three hidden layers and the stream
    assert list(told["wins"]) == ["searched", "obs_diagonal", "seed 2", "random"]
    assert told["wins"]["searched"] < 4
    assert sum(errors(best).values()) == pytest.approx(told["error"], rel=1e-3)
    if method != "mask":
        default = pruned(Net(), method, **copy.deepcopy(keys))
        assert sum(errors(default).values()) == pytest.approx(told["error_searched"], rel=1e-3)
    assert best.search is not None
    assert best.search.score == pytest.approx(best.search.problem.evaluate(best.search.solution))
    assert best.report is not None
    assert best.report.same


def test_ways_differ() -> None:
    """However many orders are compared, no two are found in the same way."""
    every = ways(12, 3)
    assert len({(way.scores, way.seed, way.random) for way in every}) == 12
    assert len({way.name for way in every}) == 12


def test_obc_beats_what_follows_it() -> None:
    """In one order, OBC strays less from the layers than SparseGPT, and than Wanda with a refit."""
    found = {
        method: sum(errors(pruned(Net(), method, solver="none")).values())
        for method in ("refit", "sparsegpt", "obc")
    }
    assert found["obc"] < found["refit"]
    assert found["obc"] < found["sparsegpt"]


def test_large_layers_are_refused_before_anything_is_done() -> None:
    """OBC of a layer that would take hours is refused by the plan, with the way out."""
    model = nn.Sequential(nn.Linear(8192, 64, device="meta"))
    network = pruning.trace(model, (torch.empty(2, 8192, device="meta"),))
    recipe = Recipe.of({"layer": [{"match": "*", "pattern": "2:4", "method": "obc"}]})
    with pytest.raises(StateError, match=r"0\.weight: OBC of 64 rows of 8192 inputs.*sparsegpt"):
        make_plan(model, recipe, network, calibrated=True)


@pytest.mark.parametrize(
    ("keys", "error", "told"),
    [
        ({"calibration": "later"}, UnknownName, "calibration"),
        ({"blocks": ["layers.*"]}, RecipeError, "blocks are for"),
        ({"calibration": "blocks", "blocks": [3]}, RecipeError, "blocks is a name"),
        ({"rerank": 0}, RecipeError, "at least 1, not 0"),
        ({"rerank": True}, RecipeError, "at least 1, not True"),
        ({"target": "tensorrt2"}, UnknownName, "tensorrt"),
    ],
)
def test_keys_of_recipes_are_checked(
    keys: Mapping[str, Any], error: type[Exception], told: str
) -> None:
    """Values that a recipe does not know are refused with the key and what there is."""
    with pytest.raises(error, match=told):
        Recipe.of({"layer": [{"match": "*", "pattern": "2:4"}], **keys})


def test_choices_need_data() -> None:
    """Orders cannot be compared by output errors without calibration data."""
    with pytest.raises(RecipeError, match="rerank compares output errors"):
        pruning.prune(
            Net(), {"rerank": 2, "layer": [{"match": "*", "pattern": "2:4"}]},
            example_inputs=data()[:3],
        )  # fmt: skip
    with pytest.raises(UnknownName, match="module"):
        pruned(Net(), calibration="blocks", blocks="layer.*")


def test_columns_of_blocks_with_orders_of_their_own_cannot_be_swept() -> None:
    """An order of columns is found through moves of any kind, and refused where rows differ."""
    shape = torch.Size((4, 6))
    rows, cols = Move((0,), torch.tensor([3, 1, 0, 2]).numpy()), torch.tensor([5, 0, 1, 4, 2, 3])
    both = [rows, Move((1,), cols.numpy())]
    found = column_order("w", shape, 1, both)
    assert found is not None
    assert torch.equal(found, cols)
    mixed = torch.arange(24).index_copy(0, torch.tensor([2, 3]), torch.tensor([3, 2])).numpy()
    with pytest.raises(StateError, match="w: its blocks have column orders of their own"):
        column_order("w", shape, 1, [Move((0, 1), mixed)])


def test_what_was_done_is_told() -> None:
    """A bundle tells versions, the model, and each layer's retained share under its bound."""
    model = Net()
    first = pruned(Net(), target=["tensorrt", "torch-semi-structured"])
    settings = first.bundle.settings
    assert set(settings["versions"]) == {"permsearch", "python", "numpy", "torch"}
    assert settings["model"] == pruned(Net()).bundle.settings["model"]
    with torch.no_grad():
        model.head.bias[0] += 1
    assert settings["model"] != pruned(model).bundle.settings["model"]
    for entry in first.bundle.values():
        record = entry.record
        assert 0 < record["baseline"] < record["retained"] <= record["bound"] <= 1
        assert record["bound_kind"] == "row"
        assert record["certified"] is None
        assert record["targets"]["tensorrt"] == ""
        assert "no multiple of 32" in record["targets"]["torch-semi-structured"]


@pytest.mark.parametrize("pattern", ["1:4", "4:2:8", "hinm:4@0.5:2:4"])
def test_no_layer_keeps_more_than_its_bound(pattern: str) -> None:
    """Bounds of single layers hold for orders that layers share, of rows and of columns."""
    result = pruned(Net(), "mask", layer={"pattern": pattern}, solver="local")
    for entry in result.bundle.values():
        assert entry.record["retained"] <= entry.record["bound"] * (1 + 1e-9)
        assert entry.record["baseline"] <= entry.record["bound"] * (1 + 1e-9)
    still = pruned(Net(), "mask", layer={"pattern": pattern}, solver="none")
    for name, entry in still.bundle.items():
        assert entry.record["retained"] == pytest.approx(entry.record["baseline"])
        assert entry.record["bound"] == pytest.approx(result.bundle[name].record["bound"])


def test_errors_in_the_record_are_the_layers_own() -> None:
    """The output error of a record is that of the final weight, on the data."""
    model, dense = Net(), Net()
    result = pruned(model, solver="none")
    inputs = calibrate(dense, [data()], gram=True)["head.weight"]
    weight = dense.head.weight.detach()
    error = output_error(weight, model.head.weight.detach(), inputs)
    energy = output_error(weight, torch.zeros_like(weight), inputs)
    assert errors(result)["head.weight"] == pytest.approx(error / energy, rel=1e-5)
