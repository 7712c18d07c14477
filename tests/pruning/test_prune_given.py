"""Orders and statistics that are there already: `prune` takes them, or says why they do not fit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import permsearch as ps
import pruning
import pruning.pipeline
from permsearch.cli import cli
from permsearch.errors import OrderError, UnknownName
from pruning.errors import BundleMismatch, CalibrationError, RecipeError, StateError
from tests.pruning.test_prune import block, data, recipe

EXAMPLE = torch.ones(2, 8)
RECIPE = recipe("refit")


def masks(result: pruning.PruneResult) -> dict[str, Any]:
    """Return what became of each weight: its mask as bytes, and its new values' fingerprint."""
    found = result.bundle.items()
    return {name: (each.mask.tobytes(), each.record["stored_sha256"]) for name, each in found}


def pruned(own: Any = RECIPE, **more: Any) -> tuple[nn.Module, pruning.PruneResult]:
    """Return the block, pruned."""
    model = block()
    more = {"calibration": data().split(50), **more}
    return model, pruning.prune(model, own, example_inputs=EXAMPLE, **more)


@pytest.mark.parametrize("form", ["result", "mapping", "solved"])
def test_orders_found_before_are_taken(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run with the first one's orders searches nothing and comes to the same weights."""
    _, first = pruned()
    assert first.search is not None
    assert first.search.score > first.search.baseline
    monkeypatch.setattr("pruning.pipeline.searched", None)  # would be called for a search
    given: Any = first.search if form == "result" else dict(first.search.solution)
    if form == "solved":
        given = ps.solve(first.search.problem, "auto", stop=ps.MaxSteps(200), seed=1)
    _, second = pruned(search=given)
    assert masks(second) == masks(first)
    assert second.search is not None
    assert second.search.score == pytest.approx(first.search.score)
    told = second.bundle.settings["search"]
    assert told["solver"] == ("given" if form == "mapping" else first.search.solver)
    assert second.report is not None
    assert second.report.same


def test_orders_of_a_problem_without_scores() -> None:
    """Orders hold even where no layer has a say: they are applied, and proven to be harmless."""
    own = recipe(permute=False)
    order = np.arange(32)[::-1].copy()
    model, result = pruned(own, search=_hidden(order))
    assert torch.equal(model.get_parameter("up.bias"), block().up.bias.flip(0))
    assert result.search is not None


def _hidden(order: Any) -> dict[str, Any]:
    """Return an order for the hidden layer's group, by the name it has."""
    network = pruning.trace(block(), EXAMPLE)
    return {next(group.name for group in network.groups if group.size == 32): order}


def test_orders_that_do_not_fit_are_refused() -> None:
    """Other groups, other sizes, gathers that no rule asks for, nonsense, or a rerank: errors."""
    (name,) = _hidden(None)
    cases: list[tuple[Any, type[Exception], str]] = [
        ({"elsewhere": np.arange(4)}, UnknownName, "elsewhere"),
        ({name: np.arange(8)}, OrderError, "order of"),
        ({"up (gathered)": np.arange(16)}, StateError, "no rule gathers"),
        (3, StateError, "not a int"),
    ]
    for given, kind, text in cases:
        with pytest.raises(kind, match=text):
            pruned(search=given)
    with pytest.raises(RecipeError, match="rerank searches other orders"):
        pruned({**RECIPE, "rerank": 2}, search={})


def searched_bundle(folder: Path, names: list[str], **tensors: torch.Tensor) -> Path:
    """Return the folder of a bundle with the best orders of single weights."""
    from safetensors.torch import save_file

    model = block()
    own = {name: model.get_parameter(name).detach() for name in names}
    save_file({**own, **tensors}, folder / "weights.safetensors")
    given = [str(folder / "weights.safetensors"), "--out", str(folder / "bundle")]
    ran = CliRunner().invoke(cli, ["search", *given, "--pattern", "2:4", "--steps", "200"])
    assert ran.exit_code == 0, ran.output
    return folder / "bundle"


def test_a_bundle_of_single_weights_gives_orders(tmp_path: Path) -> None:
    """What `permsearch search` found for one reader of a group is that group's order."""
    bundle = searched_bundle(tmp_path, ["down.weight"])
    loaded = pruning.MaskBundle.load(bundle)
    wanted = loaded["down.weight"].cols
    assert wanted is not None
    for given in (bundle, loaded):
        model, result = pruned("2:4", search=given, calibration=None)
        assert torch.equal(model.get_parameter("up.bias"), block().up.bias[wanted])
        entry = result.bundle["down.weight"]
        assert np.array_equal(entry.mask, loaded["down.weight"].mask)


def test_bundles_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Pinned columns, two orders for one group, other values, other names: errors with the way."""
    pinned, both, alien = (tmp_path / name for name in ("pinned", "both", "alien"))
    for folder in (pinned, both, alien):
        folder.mkdir()
    with pytest.raises(StateError, match="gather = true"):
        pruned(search=searched_bundle(pinned, ["stem.weight"]))
    with pytest.raises(StateError, match="share the order"):
        pruned(search=searched_bundle(both, ["up.weight", "head.weight"]))
    bundle = searched_bundle(alien, ["down.weight"])
    model = block()
    with torch.no_grad():
        model.down.weight.mul_(2)
    with pytest.raises(BundleMismatch, match="search again"):
        pruning.prune(model, "2:4", example_inputs=EXAMPLE, search=bundle)
    with pytest.raises(UnknownName, match=r"down\.weight"):
        pruning.prune(nn.Linear(8, 4), "2:4", example_inputs=EXAMPLE, search=bundle)


def test_gathered_columns_take_a_bundles_order(tmp_path: Path) -> None:
    """A pinned layer's order from `permsearch search` becomes its gather."""
    bundle = searched_bundle(tmp_path, ["stem.weight"])
    own = {"layer": [{"match": "stem", "pattern": "2:4", "gather": True}]}
    _, result = pruned(own, search=bundle, calibration=None)
    assert [cost.layer for cost in result.gathers] == ["stem"]
    wanted = pruning.MaskBundle.load(bundle)["stem.weight"]
    assert np.array_equal(result.bundle["stem.weight"].mask, wanted.mask)


@pytest.mark.parametrize("calibration", ["together", "blocks"])
def test_statistics_made_before_are_taken(calibration: str) -> None:
    """`prune` with what `calibrate` returned comes to what it comes to with the batches."""
    own = {**RECIPE, "calibration": "together"}
    _, wanted = pruned(own)
    inputs = pruning.calibrate(block(), data().split(50), gram=True)
    for given in (inputs, dict(reversed(inputs.items()))):
        _, found = pruned({**own, "calibration": calibration}, calibration=given)
        assert masks(found) == masks(wanted)


def test_statistics_that_do_not_fit_are_refused() -> None:
    """A missing weight, a missing Gram matrix, another size, a sequential pass: told beforehand."""
    inputs = pruning.calibrate(block(), [data()], gram=True)
    plain = pruning.calibrate(block(), [data()])
    missing = {name: each for name, each in inputs.items() if name != "up.weight"}
    swapped = {**inputs, "up.weight": inputs["down.weight"]}
    before = copy.deepcopy(block().state_dict())
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (RECIPE, missing, CalibrationError, r"up\.weight: .* no statistics"),
        (RECIPE, plain, CalibrationError, "no Gram matrix .* gram=True"),
        (RECIPE, swapped, CalibrationError, "do not fit a weight"),
        ({**RECIPE, "calibration": "sequential"}, inputs, RecipeError, "hand in batches"),
    ]
    for own, given, kind, text in cases:
        model = block()
        with pytest.raises(kind, match=text):
            pruning.prune(model, own, example_inputs=EXAMPLE, calibration=given)
        assert all(torch.equal(model.state_dict()[name], old) for name, old in before.items())


def test_layers_may_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With shares, a layer whose scores are a million times those of others has no more say."""
    real = pruning.pipeline.scored
    orders = {}
    for weigh in ("sums", "shares"):
        for factor in (1.0, 2.0**20):

            def scored(*args: Any, factor: float = factor) -> dict[str, torch.Tensor]:
                return {n: s * (factor if n == "up.weight" else 1) for n, s in real(*args).items()}

            monkeypatch.setattr(pruning.pipeline, "scored", scored)
            own = {"steps": 300, "weigh": weigh, "layer": [{"match": "*", "pattern": "2:4"}]}
            _, result = pruned(own, calibration=None)
            assert result.search is not None
            assert result.bundle.settings["weigh"] == weigh
            orders[weigh, factor] = result.search.solution
    for name, order in orders["shares", 1.0].items():
        assert np.array_equal(order, orders["shares", 2.0**20][name])
    assert any(
        not np.array_equal(order, orders["sums", 2.0**20][name])
        for name, order in orders["sums", 1.0].items()
    )
    with pytest.raises(UnknownName, match="weigh"):
        pruned({"weigh": "evenly", "layer": [{"match": "*", "pattern": "2:4"}]})
