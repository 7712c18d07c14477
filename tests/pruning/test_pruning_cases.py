"""The reported cases about masks, training, calibration, selection and export: each passes."""

from __future__ import annotations

import copy
import importlib.util
import io
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, load_model, save_file
from torch.nn import functional

import permsearch as ps
import pruning
from permsearch.errors import PatternError, ScoresError
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.io.select import NothingEligible
from pruning import exports, scores
from pruning.errors import CalibrationError, ExportError, StateError
from pruning.exports.bitmask import parts_of
from pruning.masked import masks_in_state
from pruning.statistics import Inputs, Sums
from pruning.update import refit, sparsegpt


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Any:
    """Return the module of cases beside the repository, or skip."""
    path = request.config.rootpath.parent / "shared" / "cases" / "models.py"
    if not Path(path).is_file():
        pytest.skip(f"needs the collection of cases {path}, which is not part of the project")
    spec = importlib.util.spec_from_file_location("reported_pruning_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def half(weight: torch.Tensor) -> torch.Tensor:
    """Return the 2:4 mask by magnitude."""
    return torch.from_numpy(ps.NM(2, 4).keep(scores.magnitude(weight).numpy()))


def test_o09_attention_trains_under_masks(cases: Any) -> None:
    """Three steps run, masked entries stay zero, and both paths use the masked weights."""
    case = cases.CASES["O09"]()
    model = case.model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    names = ("att.in_proj_weight", "att.out_proj.weight")
    masks = {name: half(model.get_parameter(name)) for name in names}
    pruning.attach_masks_(model, masks, optimizer=optimizer)
    for _ in range(case.data["steps"]):
        optimizer.zero_grad()
        output = model(*case.inputs)
        functional.cross_entropy(output.flatten(0, 1), case.data["target"].flatten()).backward()
        optimizer.step()
        assert bool((model.att.in_proj_weight[~masks[names[0]]] == 0).all())
        assert bool((model.att.out_proj.weight[~masks[names[1]]] == 0).all())
    trained = model(*case.inputs)
    with torch.no_grad():
        assert torch.allclose(model.eval()(*case.inputs), trained, atol=1e-5)


def test_o16_ties_keep_exactly_as_many(cases: Any) -> None:
    """Every group keeps exactly N, twice the same, and constants keep what they must."""
    data = cases.CASES["O16"]().data
    for text in ("2:4", "1:4", "4:8"):
        pattern = ps.parse_pattern(text)
        for name in ("ones", "signs", "zeros", "mixed"):
            own = scores.magnitude(data[name]).numpy()
            mask = pattern.keep(own)
            assert bool((mask.reshape(-1, pattern.m).sum(1) == pattern.n).all())
            assert bool((mask == pattern.keep(own)).all())
            again = pattern.keep(own * mask)
            assert float((own * again).sum()) == float((own * mask).sum())
    ones = scores.magnitude(data["ones"]).numpy()
    assert ps.NM(2, 4).retained(ones) == data["retained_ones"]
    assert ps.search(ones, "2:4").score == data["retained_ones"]


def test_o17_low_precision_gives_the_masks_of_float32(cases: Any) -> None:
    """bfloat16 and float16 have the masks of their float32 copies; types stay."""
    case = cases.CASES["O17"]()
    for name in ("bf16", "fp16"):
        assert torch.equal(half(case.data[name]), half(case.data[name].float()))
    wide = copy.deepcopy(case.model).float()
    found = [
        pruning.prune(
            model, {"steps": 50, "layer": [{"match": "*", "pattern": "2:4"}]}, example_inputs=value
        )
        for model, value in ((case.model, case.inputs[0]), (wide, case.inputs[0].float()))
    ]
    for name, entry in found[0].bundle.items():
        assert bool((entry.mask == found[1].bundle[name].mask).all())
    assert {p.dtype for p in case.model.parameters()} == {torch.bfloat16}


def test_o18_groups_do_not_straddle_filters(cases: Any) -> None:
    """The 3-channel layer is skipped by name; the second is 2:4 along channels at each tap."""
    case = cases.CASES["O18"]()
    result = pruning.prune(case.model, "2:4", example_inputs=case.inputs)
    assert "3 columns" in result.plan.skipped["0.weight"]
    mask = pruning.masks_of(case.model)["2.weight"]
    assert ps.NM(2, 4).accepts(mask.numpy())
    assert int(mask.sum()) * 2 == mask.numel()


def test_o19_tiles_that_do_not_fit_are_named() -> None:
    """200 rows are refused for strips of 64, with both numbers, and the layer is told."""
    model = torch.nn.Sequential(torch.nn.Linear(192, 200), torch.nn.Linear(200, 192))
    result = pruning.prune(
        model, {"solver": "none", "layer": [{"match": "*", "pattern": "64:2:8"}]},
        example_inputs=torch.randn(2, 192),
    )  # fmt: skip
    assert "200 rows" in result.plan.skipped["0.weight"]
    assert "64" in result.plan.skipped["0.weight"]
    assert set(result.bundle) == {"1.weight"}


def test_o20_magnitude_is_absolute(cases: Any) -> None:
    """Large negative weights stay; integer and complex weights are refused with their type."""
    data = cases.CASES["O20"]().data
    assert torch.equal(half(data["w"]), data["mask"])
    for dtype in (torch.int32, torch.complex64):
        with pytest.raises(ScoresError, match=str(dtype)):
            scores.magnitude(data["w"].to(dtype))


def test_o21_momentum_does_not_revive(cases: Any) -> None:
    """Masked entries are exactly zero after each step of each optimizer."""
    for name, options in cases.CASES["O21"]().data["optim"]:
        case = cases.CASES["O21"]()
        model, target = case.model, case.data["target"]
        optimizer = getattr(torch.optim, name)(model.parameters(), **options)
        masks: dict[str, torch.Tensor] = {}
        for step in range(case.data["dense_steps"] + case.data["sparse_steps"]):
            if step == case.data["dense_steps"]:
                masks = {n: half(p) for n, p in model.named_parameters() if p.dim() > 1}
                pruning.attach_masks_(model, masks, optimizer=optimizer)
            optimizer.zero_grad()
            functional.cross_entropy(model(*case.inputs), target).backward()
            optimizer.step()
            for key, mask in masks.items():
                layer = model.get_submodule(key.removesuffix(".weight"))
                assert bool((layer.weight[~mask] == 0).all())
                assert bool((layer.parametrizations.weight.original[~mask] == 0).all())


def test_o22_copies_of_masked_models(cases: Any) -> None:
    """Deep copies, pickles, saved files and strict state dicts give equal, independent models."""
    case = cases.CASES["O22"]()
    model = case.model
    pruning.attach_masks_(model, {n: half(p) for n, p in model.named_parameters() if p.dim() > 1})
    model(*case.inputs).sum().backward()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    fresh = cases.CASES["O22"]().model
    pruning.attach_masks_(fresh, masks_in_state(model.state_dict()))
    fresh.load_state_dict(model.state_dict(), strict=True)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), fresh]
    for other in [*copies, torch.load(file, weights_only=False)]:
        assert torch.equal(other(*case.inputs), model(*case.inputs))
        assert not {t.data_ptr() for t in other.state_dict().values()} & {
            t.data_ptr() for t in model.state_dict().values()
        }


def test_o23_thin_calibration(cases: Any) -> None:
    """Ten rows for 64 inputs end with finite weights and an exact mask; no rows are an error."""
    data = cases.CASES["O23"]().data
    for key in ("x", "x_bf16"):
        sums = Sums("layer", gram=True)
        sums.add(data[key][None])
        found: Inputs = sums.finish()
        weight, mask = sparsegpt(data["w"], found, 2, 4)
        assert bool(weight.isfinite().all())
        assert bool((mask.reshape(-1, 4).sum(1) == 2).all())
        assert bool(refit(data["w"], mask, found).isfinite().all())
        assert bool(scores.obs_diagonal(data["w"], found).isfinite().all())
    sums = Sums("layer", gram=True)
    sums.add(data["x_none"][None])
    with pytest.raises(CalibrationError, match="layer: calibration never reached it"):
        sums.finish()


def test_o24_skipped_layers_are_told(cases: Any) -> None:
    """Only the eligible layer is masked, the others are listed; nothing eligible is an error."""
    case = cases.CASES["O24"]()
    result = pruning.prune(case.model, "2:4", example_inputs=case.inputs)
    assert set(result.bundle) == {f"{name}.weight" for name in case.data["eligible_24"]}
    assert set(result.plan.skipped) == {"0.weight", "2.weight", "7.weight"}
    total = sum(p.numel() for p in case.model.parameters() if p.dim() > 1)
    assert result.density == pytest.approx(1 - 20 * 30 * 9 / 2 / total)
    with pytest.raises(NothingEligible, match=r"0\.weight.*2\.weight.*4\.weight.*7\.weight"):
        pruning.prune(cases.CASES["O24"]().model, "1:16", example_inputs=case.inputs)


def test_o33_fused_experts_are_named(cases: Any, tmp_path: Path) -> None:
    """Parameters that are no layers are masked along their inputs; the unused expert is finite."""
    case = cases.CASES["O33"]()
    dense = copy.deepcopy(case.model)
    result = pruning.prune(
        case.model, {"steps": 50, "layer": [{"match": "*", "pattern": "2:4"}]},
        example_inputs=case.inputs, calibration=[case.inputs],
    )  # fmt: skip
    assert set(result.bundle) == {"gate_up", "down", "router.weight"}
    masks = pruning.masks_of(case.model)
    for name in ("gate_up", "down"):
        assert ps.NM(2, 4).accepts(masks[name].numpy())
    output = case.model(*case.inputs)
    assert bool(output.isfinite().all())
    path = tmp_path / "experts.safetensors"
    assert set(pruning.export(result.bundle, case.model, path=path).layers) == set(result.bundle)
    assert all(torch.equal(load_file(path)[n] != 0, m) for n, m in masks.items())
    pruning.export(result.bundle, dense, path=path)
    result.bundle.apply_(dense)
    assert torch.allclose(dense(*case.inputs), output, atol=1e-5)
    fresh = cases.CASES["O33"]().model
    load_model(fresh, path)
    assert torch.equal(fresh(*case.inputs), dense(*case.inputs))


def test_o34_masks_go_through_weight_norm(cases: Any) -> None:
    """A computed weight is masked behind its computation, or refused by name."""
    case = cases.CASES["O34"]()
    mask = half(case.model[2].weight)
    pruning.attach_masks_(case.model, {"2.weight": mask})
    assert bool((case.model[2].weight[~mask] == 0).all())
    with pytest.raises(StateError, match=r"2\.weight"):
        pruning.detach_masks_(case.model)


def test_o25_dense_weights_are_refused(cases: Any) -> None:
    """The number of groups over the limit is told; a pruned weight round-trips bit for bit."""
    data = cases.CASES["O25"]().data
    with pytest.raises(ExportError, match=rf"layer.*{data['violations']} groups"):
        exports.to_semi_structured(data["dense"], "layer")
    for dtype in (torch.float16, torch.bfloat16):
        weight = data["sparse"].to(dtype)
        assert torch.equal(exports.to_semi_structured(weight).unpack(), weight)
    with pytest.raises(ExportError, match="multiple of 32"):
        exports.to_semi_structured(data["too_small"])


def test_o26_memory_formats_do_not_matter(cases: Any, tmp_path: Path) -> None:
    """Masks follow logical axes; what is masked can be saved, and reads back bit for bit."""
    case = cases.CASES["O26"]()
    for weight in (*case.data.values(), case.model[2].weight):
        assert torch.equal(half(weight), half(weight.detach().contiguous()))
    pruning.prune(case.model, "2:4", example_inputs=case.inputs)
    pruning.detach_masks_(case.model)
    state = {name: value.contiguous() for name, value in case.model.state_dict().items()}
    save_file(state, tmp_path / "model.safetensors")
    found = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(found[name], value) for name, value in state.items())


def test_o27_a_dense_head_stays_dense(cases: Any, tmp_path: Path) -> None:
    """Exactly the conforming layers can be packed; the head is listed, and refused if forced."""
    model = cases.CASES["O27"]().model
    weights = {n.removesuffix(".weight"): p.half() for n, p in model.named_parameters()}
    reasons = exports.eligibility(weights)
    assert [n for n, why in reasons.items() if not why] == ["q_proj", "up_proj", "down_proj"]
    assert "groups of 4 hold more than 2" in reasons["lm_head"]
    with pytest.raises(ExportError, match="lm_head"):
        exports.to_semi_structured(weights["lm_head"], "lm_head")
    for name in ("q_proj", "up_proj", "down_proj"):
        assert torch.equal(exports.to_semi_structured(weights[name]).unpack(), weights[name])
    source, packed = tmp_path / "model", tmp_path / "packed"
    source.mkdir()
    save_file(model.state_dict(), source / "model.safetensors")
    (source / "config.json").write_text("{}", "utf-8")
    entries = {
        name: entry_of(name, weight)
        for name, weight in model.named_parameters()
        if name.endswith("_proj.weight")
    }
    told = pruning.export(pruning.MaskBundle(entries), source, "sparse-24-bitmask", packed)
    assert set(told.layers) == set(entries)
    config = json.loads((packed / "config.json").read_text("utf-8"))["quantization_config"]
    assert config["sparsity_config"]["ignore"] == ["lm_head"]
    stored = load_file(packed / "model.safetensors")
    assert torch.equal(stored["lm_head.weight"], model.lm_head.weight)
    for name, parts in parts_of(stored).items():
        assert torch.equal(parts.unpack()[0], model.get_parameter(name))
    forced = {"lm_head.weight": entry_of("lm_head.weight", model.lm_head.weight)}
    with pytest.raises(ExportError, match=r"lm_head\.weight: its mask breaks 2:4"):
        pruning.export(pruning.MaskBundle(forced), source, "sparse-24-bitmask", tmp_path / "no")


def entry_of(name: str, weight: torch.Tensor) -> BundleEntry:
    """Return a bundle's entry that says a weight is 2:4 as it is."""
    values = weight.detach()
    record = {"shape": list(weight.shape), "sha256": fingerprint(values.numpy())}
    mask = (values != 0).numpy()
    return BundleEntry(name, ps.NM(2, 4), mask, None, None, None, record)


def test_o12_tied_weights_are_exported_once(cases: Any, tmp_path: Path) -> None:
    """A tied weight is masked and stored once; the file loads bit for bit, and tied."""
    case = cases.CASES["O12"]()
    recipe = {"solver": "none", "layer": [{"match": "*", "pattern": "2:4"}]}
    result = pruning.prune(case.model, recipe, example_inputs=case.inputs)
    path = tmp_path / "tied.safetensors"
    pruning.export(result.bundle, case.model, path=path)
    fresh = cases.CASES["O12"]().model
    load_model(fresh, path)
    assert torch.equal(fresh(*case.inputs), case.model(*case.inputs))
    named = dict(fresh.named_parameters(remove_duplicate=False))
    assert len({id(parameter) for parameter in named.values()}) < len(named)
    assert len(load_file(path)) == len(dict(fresh.named_parameters()))


def test_one_column_is_refused() -> None:
    """A matrix of one column has no 2:4 mask, and says so."""
    with pytest.raises(PatternError, match="1 column"):
        ps.NM(2, 4).keep(np.ones((64, 1)))
