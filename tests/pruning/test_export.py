"""Exports are read back by what reads them in earnest; imports find the masks of others."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import prune

from permsearch.errors import FileError, UnknownName
from permsearch.patterns import NM, parse_pattern
from pruning import exports
from pruning.errors import ExportError
from pruning.masks import attach_masks_, masks_of


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def half(weight: torch.Tensor, n: int = 2, m: int = 4) -> torch.Tensor:
    """Return the N:M mask by magnitude."""
    return torch.from_numpy(NM(n, m).keep(weight.detach().float().abs().numpy()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.float32])
def test_semi_structured_round_trip(dtype: torch.dtype) -> None:
    """PyTorch's decoder gives back every bit of a weight that its encoder packed."""
    n, m = (1, 2) if dtype == torch.float32 else (2, 4)
    weight = drawn(64, 128) * 20
    packed = (weight * half(weight, n, m)).to(dtype)
    found = exports.to_semi_structured(packed)
    assert found.values.shape == (64, 64)
    assert torch.equal(found.unpack(), packed)


def test_semi_structured_refuses_what_would_be_misread() -> None:
    """Dense weights, sizes and types are refused by name, with the number of bad groups."""
    dense = drawn(32, 64).half()
    with pytest.raises(ExportError, match=r"q_proj.* 512 groups of 4 hold more than 2"):
        exports.to_semi_structured(dense, "q_proj")
    with pytest.raises(ExportError, match="4 rows are no multiple of 32"):
        exports.to_semi_structured(drawn(4, 8).half())
    with pytest.raises(ExportError, match="float64"):
        exports.to_semi_structured(dense.double())
    reasons = exports.eligibility({"a": dense, "b": dense * half(dense), "bias": dense[0]})
    assert reasons["b"] == ""
    assert "512" in reasons["a"]
    assert set(reasons) == {"a", "b"}


def test_bsr_round_trip() -> None:
    """Only tiles that are not zero are stored, and a product with them is the masked one."""
    weight = drawn(16, 32)
    mask = torch.from_numpy(parse_pattern("block:4x8@0.5").keep(weight.abs().numpy()))
    found = exports.to_bsr(torch.where(mask, weight, -0.0), (4, 8), density=0.5)
    assert found.layout == torch.sparse_bsr
    assert found.values().shape == (8, 4, 8)
    value = drawn(3, 32)
    assert torch.allclose(value @ found.to_dense().T, value @ (weight * mask).T)
    with pytest.raises(ExportError, match="16 of 16 tiles"):
        exports.to_bsr(weight, (4, 8), density=0.5)
    with pytest.raises(ExportError, match="32 columns are no multiple of 5"):
        exports.to_bsr(weight, (4, 5))


def masked() -> nn.Sequential:
    """Return a small masked model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Conv1d(16, 4, 1))
    attach_masks_(model, {n: half(p) for n, p in model.named_parameters() if p.dim() > 1})
    return model


def test_torch_prune_round_trip() -> None:
    """torch.nn.utils.prune takes the masks over, trains under them, and hands them back."""
    model, before = masked(), masked()
    assert exports.to_torch_prune_(model) == ["0.weight", "2.weight"]
    assert prune.is_pruned(model)
    assert {"0.weight_orig", "0.weight_mask"} <= set(model.state_dict())
    assert torch.equal(model[0](torch.ones(1, 8)), before[0](torch.ones(1, 8)))
    fresh = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Conv1d(16, 4, 1))
    for layer in (fresh[0], fresh[2]):
        prune.identity(layer, "weight")
    fresh.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(fresh[0](torch.ones(1, 8)), before[0](torch.ones(1, 8)))
    taken = exports.from_torch_prune_(fresh)
    assert not prune.is_pruned(fresh)
    assert all(torch.equal(mask, masks_of(before)[name]) for name, mask in taken.items())
    assert set(masks_of(fresh)) == set(taken)


def test_torch_prune_is_refused_where_its_hooks_do_not_run() -> None:
    """Attentions, recurrent layers and tied weights are named; nothing is changed."""
    attention, lstm = nn.MultiheadAttention(8, 2), nn.LSTM(8, 4)
    tied = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12, bias=False))
    tied[1].weight = tied[0].weight
    for model, name in (
        (attention, "in_proj_weight"),
        (attention, "out_proj.weight"),
        (lstm, "weight_ih_l0"),
        (tied, "1.weight"),
    ):
        attach_masks_(
            model, {name: half(dict(model.named_parameters(remove_duplicate=False))[name])}
        )
        own = masks_of(model)
        with pytest.raises(ExportError, match=r"hook|tied"):
            exports.to_torch_prune_(model)
        assert set(masks_of(model)) == set(own)
    with pytest.raises(ExportError, match="no masks attached"):
        exports.to_torch_prune_(nn.Linear(2, 2))


def folder(path: Path) -> dict[str, torch.Tensor]:
    """Write a folder of two shards and return its tensors."""
    path.mkdir()
    tensors = {
        "a.weight": drawn(8, 16).bfloat16(),
        "a.bias": drawn(8),
        "b.weight": drawn(4, 8, 3, seed=1).half(),
    }
    tensors["b.weight"][0, 0] = -0.0
    names = {"model-00001-of-00002": ["a.weight", "a.bias"], "model-00002-of-00002": ["b.weight"]}
    files = {}
    for shard, own in names.items():
        save_file({n: tensors[n] for n in own}, path / f"{shard}.safetensors", {"format": "pt"})
        files.update({name: f"{shard}.safetensors" for name in own})
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (path / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    (path / "config.json").write_text("{}", "utf-8")
    return tensors


def test_folders_are_exported_shard_by_shard(tmp_path: Path) -> None:
    """Dropped weights are +0.0, all else is kept to the bit, and the masks can be read back."""
    tensors = folder(tmp_path / "in")
    masks = {n: half(tensors[n]).numpy() for n in ("a.weight", "b.weight")}
    masks["b.weight"][0, 0] = False
    exports.export_folder(tmp_path / "in", tmp_path / "out", masks)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        p.name for p in (tmp_path / "in").iterdir()
    }
    found = {}
    for path in (tmp_path / "out").glob("*.safetensors"):
        found.update(load_file(path))
    assert torch.equal(found["a.bias"], tensors["a.bias"])
    for name, mask in masks.items():
        kept = torch.from_numpy(mask)
        assert found[name].dtype == tensors[name].dtype
        assert torch.equal(found[name][kept], tensors[name][kept])
        assert bool((found[name][~kept] == 0).all())
        assert not bool(torch.signbit(found[name][~kept]).any())
    back = exports.import_masks(found)
    assert set(back) == {"a.weight", "b.weight"}
    assert back["a.weight"].follows
    assert np.array_equal(back["a.weight"].mask.numpy(), masks["a.weight"])


def test_a_wrong_mask_writes_nothing(tmp_path: Path) -> None:
    """Unknown names, other shapes, and a target that is there: no folder appears."""
    tensors = folder(tmp_path / "in")
    mask = half(tensors["a.weight"]).numpy()
    with pytest.raises(UnknownName, match=r"did you mean 'a\.weight'"):
        exports.export_folder(tmp_path / "in", tmp_path / "out", {"a.wieght": mask})
    with pytest.raises(ExportError, match=r"a\.bias"):
        exports.export_folder(tmp_path / "in", tmp_path / "out", {"a.bias": mask})
    with pytest.raises(FileError):
        exports.export_folder(tmp_path / "in", tmp_path / "in", {"a.weight": mask})
    assert not (tmp_path / "out").exists()


def test_masks_of_other_tools() -> None:
    """ASP's and modelopt's buffers and torch's are found by name, with what they leave to gain."""
    weight = drawn(8, 16)
    poor = torch.tensor([True, True, False, False]).repeat(8, 4)
    for source, key, own in (
        ("asp", "x.__weight_mma_mask", "x.weight"),
        ("modelopt", "x._weight_mask", "x.weight"),
        ("torch-prune", "x.weight_mask", "x.weight_orig"),
    ):
        found = exports.import_masks({own: weight, key: poor.float()}, source)["x.weight"]
        assert torch.equal(found.mask, poor)
        assert found.follows
        assert found.density == 0.5
        best = float((weight.abs() * half(weight)).sum() / weight.abs().sum())
        assert found.best == pytest.approx(best)
        assert found.headroom > 0.1
    with pytest.raises(ExportError, match="no masks as 'asp'"):
        exports.import_masks({"x.weight": weight}, "asp")
    with pytest.raises(ExportError, match="missing"):
        exports.import_masks({"x._weight_mask": poor}, "modelopt")
    assert not exports.import_masks({"w": torch.relu(weight)})["w"].follows


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_sparsifiers_of_torch() -> None:
    """A prepared sparsifier takes the masks, keeps them in its own state, and bakes them in."""
    from torch.ao.pruning import WeightNormSparsifier

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    dense = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sparsifier = WeightNormSparsifier(sparsity_level=1.0)
    masks = {"0.weight": half(model[0].weight)}
    with pytest.raises(ExportError, match="prepare"):
        exports.fill_sparsifier_(sparsifier, masks)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    with pytest.raises(ExportError, match=r"not prepared for 2\.weight"):
        exports.fill_sparsifier_(sparsifier, {**masks, "2.weight": half(dense["2.weight"])})
    assert exports.fill_sparsifier_(sparsifier, masks) == ["0.weight"]
    assert torch.equal(exports.masks_in_sparsifier(sparsifier)["0.weight"], masks["0.weight"])
    kept = sparsifier.state_dict()["state"]["0.weight"]["mask"]
    assert torch.equal(kept != 0, masks["0.weight"])
    sparsifier.squash_mask()
    assert torch.equal(model[0].weight, dense["0.weight"] * masks["0.weight"])


def test_transformers_loads_an_exported_folder(tmp_path: Path) -> None:
    """What transformers saved in shards is exported, loaded again, and computes with zeros."""
    transformers = pytest.importorskip("transformers", reason="needs the extra permsearch[hf]")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        vocab_size=50, max_position_embeddings=16,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path / "dense", max_shard_size="8KB")
    assert len(list((tmp_path / "dense").glob("*.safetensors"))) > 1
    names = [n for n, p in model.named_parameters() if p.dim() == 2 and "encoder" in n]
    masks = {name: half(model.get_parameter(name)) for name in names}
    exports.export_folder(
        tmp_path / "dense", tmp_path / "zeros", {n: m.numpy() for n, m in masks.items()}
    )
    loaded = transformers.BertModel.from_pretrained(tmp_path / "zeros").eval()
    attach_masks_(model, masks)
    tokens = torch.arange(10)[None]
    with torch.no_grad():
        expected = model(tokens).last_hidden_state
        assert torch.equal(loaded(tokens).last_hidden_state, expected)


def test_a_full_disk_leaves_no_half_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while a shard is written leaves the source whole, no target and no litter."""
    tensors = folder(tmp_path / "in")
    before = {p.name: p.read_bytes() for p in (tmp_path / "in").iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        exports.export_folder(
            tmp_path / "in", tmp_path / "out", {"a.weight": half(tensors["a.weight"]).numpy()}
        )
    assert {p.name: p.read_bytes() for p in (tmp_path / "in").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
