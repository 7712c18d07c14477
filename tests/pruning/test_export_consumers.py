"""Exports read back by the packages that they are for: transformers, modelopt, ONNX, and others."""

from __future__ import annotations

import copy
import errno
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import FileError
from pruning.errors import ExportError
from pruning.exports.extras import needed

READER = "compressed-tensors==0.14.0"


def two_four(weight: torch.Tensor) -> torch.Tensor:
    """Return the 2:4 mask by magnitude."""
    return torch.from_numpy(ps.NM(2, 4).keep(weight.detach().float().abs().numpy()))


class Convolutions(nn.Module):
    """A convolution with its batch norm, a pooled head, and a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)
        self.hidden, self.head = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value = self.norm(self.conv(value)).relu().mean((2, 3))
        found: torch.Tensor = self.head(self.hidden(value).relu())
        return found


@cache
def made() -> tuple[nn.Module, nn.Module, Any, torch.Tensor]:
    """Return a dense net, the pruned one with its masks on, the bundle, and an input."""
    torch.manual_seed(0)
    dense, value = Convolutions().eval(), torch.randn(2, 8, 6, 6)
    dense.norm.running_var.uniform_(0.5, 2.0)
    model = copy.deepcopy(dense)
    recipe = {"steps": 60, "layer": [{"match": "*", "pattern": "2:4"}]}
    result = pruning.prune(model, recipe, example_inputs=value)
    return dense, model, result.bundle, value


@pytest.fixture
def modelopt() -> Any:
    """Return nvidia-modelopt's namespaces, or skip."""
    pytest.importorskip("modelopt", reason="needs the extra permsearch[modelopt]")
    sparsity = needed("modelopt.torch.sparsity", "modelopt")
    return sparsity, needed("modelopt.torch.opt", "modelopt")


@pytest.mark.slow
def test_modelopt_takes_masks_and_gives_them_back(modelopt: Any, tmp_path: Path) -> None:
    """Its `restore` brings masks and outputs back, it trains under them, and bakes them in."""
    sparsity, opt = modelopt
    _, model, bundle, value = made()
    masks = pruning.masks_of(model)
    told = pruning.export(bundle, model, "modelopt", tmp_path / "m.pt")
    assert set(told.layers) == set(masks)
    assert torch.equal(told.result(value), model(value))
    restored = opt.restore(Convolutions(), tmp_path / "m.pt").eval()
    assert torch.equal(restored(value), model(value))
    assert torch.equal(restored.get_submodule("conv")._weight_mask, masks["conv.weight"])
    optimizer = torch.optim.SGD(restored.parameters(), lr=0.1, momentum=0.9)
    restored(value).square().sum().backward()
    optimizer.step()
    read = pruning.import_masks(restored, "modelopt", search=False)
    assert all(torch.equal(read[name].mask, mask) for name, mask in masks.items())
    baked = sparsity.export(restored)
    for name, mask in masks.items():
        assert bool((baked.get_parameter(name)[~mask] == 0).all())


@pytest.mark.slow
def test_modelopt_masks_come_in(modelopt: Any) -> None:
    """What `sparse_magnitude` chose is read, is 2:4, and a search finds more to keep."""
    sparsity, _ = modelopt
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    weights = {n: p.detach().clone() for n, p in model.named_parameters() if p.dim() > 1}
    found = pruning.import_masks(sparsity.sparsify(model, "sparse_magnitude"), "modelopt")
    assert set(found) == set(weights)
    for name, each in found.items():
        assert each.follows
        assert torch.equal(each.mask, two_four(weights[name]))
        assert each.best == pytest.approx(each.retained)
        result = ps.search(weights[name], "2:4")
        assert each.found == pytest.approx(result.retained)
        assert each.headroom > 0.005
    fresh = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    pruning.attach_masks_(fresh, {name: each.mask for name, each in found.items()})


def test_modelopt_refuses_what_it_has_no_layers_for(modelopt: Any) -> None:
    """Weights outside Linear and Conv2d are left with the reason."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(8, 16, 1), nn.ReLU(), nn.Conv1d(16, 8, 1))
    result = pruning.prune(model, {"solver": "none", "layer": [{"match": "*", "pattern": "2:4"}]},
                           example_inputs=torch.randn(1, 8, 4))  # fmt: skip
    with pytest.raises(ExportError, match="not of Conv1d"):
        pruning.export(result.bundle, model, "modelopt")


@pytest.fixture
def onnxruntime() -> Any:
    """Return onnxruntime, or skip."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="needs the extra permsearch[onnx] and onnxruntime")
    return needed("onnxruntime", "onnx")


def test_onnx_runs_and_keeps_its_zeros(onnxruntime: Any, tmp_path: Path) -> None:
    """Onnxruntime computes the same; each weight is found, 2:4 along the axis that is told."""
    _, model, bundle, value = made()
    path = tmp_path / "m.onnx"
    told = pruning.export(bundle, model, "onnx", path, example_inputs=value)
    assert set(told.layers) == set(bundle)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    output = session.run(None, {name: value.numpy()})[0]
    assert np.allclose(output, model(value).detach().numpy(), atol=1e-5)
    from onnx import load, numpy_helper

    stored = {each.name: numpy_helper.to_array(each) for each in load(path).graph.initializer}
    for found in told.result.values():
        kept = np.moveaxis(stored[found.name] != 0, found.axis, -1).reshape(-1, 4)
        assert kept.sum(axis=1).max() == 2
        assert (~kept).mean() == 0.5


def test_onnx_that_lost_its_zeros_is_refused(
    onnxruntime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the exporter to change zeros, nothing would be written; old files stay."""
    _, model, bundle, value = made()
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    real = torch.onnx.export

    def spoiled(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)
        return real(model, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(torch.onnx, "export", spoiled)
        with pytest.raises(ExportError, match=r"(?s)3 weights cannot be onnx.*not in the file"):
            pruning.export(bundle, model, "onnx", path, example_inputs=value)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        pruning.export(bundle, model, "onnx", path, example_inputs=value)
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@cache
def llama() -> tuple[Any, Any, Any, torch.Tensor]:
    """Return a tiny language model, dense and pruned but for its head, with bundle and tokens."""
    transformers = pytest.importorskip("transformers", reason="needs the extra permsearch[hf]")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=48, max_position_embeddings=32, use_cache=False,
        tie_word_embeddings=False,
    )  # fmt: skip
    dense = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.arange(12)[None]
    model = copy.deepcopy(dense)
    recipe = {"steps": 40, "layer": [{"match": "*proj*", "pattern": "2:4"}]}
    result = pruning.prune(model, recipe, example_inputs=(), example_kwargs={"input_ids": tokens})
    return dense, model, result.bundle, tokens


def logits(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Return a language model's outputs."""
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=tokens).logits
    return found


def test_transformers_loads_the_folder(tmp_path: Path) -> None:
    """Folders from the model and from the dense folder compute what the masked model does."""
    dense, model, bundle, tokens = llama()
    kind = type(dense)
    told = pruning.export(bundle, model, "hf", tmp_path / "a")
    assert len(told.layers) == 7
    assert torch.equal(logits(kind.from_pretrained(tmp_path / "a"), tokens), logits(model, tokens))
    dense.save_pretrained(tmp_path / "dense")
    bundle.save(tmp_path / "bundle")
    pruning.export(tmp_path / "bundle", tmp_path / "dense", path=tmp_path / "b")
    near = logits(kind.from_pretrained(tmp_path / "b"), tokens)
    assert torch.allclose(near, logits(model, tokens), atol=1e-5)
    with pytest.raises(FileError, match="not an empty folder"):
        pruning.export(bundle, model, "hf", tmp_path / "a")
    with pytest.raises(ExportError, match="of a folder, a folder is made"):
        pruning.export(bundle, tmp_path / "dense", path=tmp_path / "c.safetensors")


def test_a_full_disk_leaves_no_half_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a folder cannot be finished, nothing stands at its path, and no litter beside it."""
    _, model, bundle, _ = llama()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for to in ("hf", "sparse-24-bitmask"):
        with pytest.raises(FileError, match="No space left"):
            pruning.export(bundle, model, to, tmp_path / "out")
        assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the last compressed-tensors that reads the format, by pip, or skip."""
    kept = getattr(request.config, "cache", None)  # so that it is installed once
    name = READER.replace("==", "-")
    folder = Path(kept.mkdir(name) if kept is not None else tmp_path_factory.mktemp(name))
    if not (folder / "compressed_tensors").is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        done = subprocess.run(
            [*command, str(folder), READER, "loguru"],
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"pip cannot install {READER}: {done.stderr.strip()[-200:]}")
    return folder


DECOMPRESS = """
import json, sys
from pathlib import Path
from safetensors.torch import save_file, load_file
from compressed_tensors.compressors import ModelCompressor
folder, out, dense = map(Path, sys.argv[1:4])
config = json.loads((folder / "config.json").read_text())["quantization_config"]
reader = ModelCompressor.from_compression_config(config)
assert reader.quantization_compressor is None
found = {n: t.contiguous() for n, t in reader.sparsity_compressor.decompress(str(folder))}
save_file(found, out / "dense.safetensors")
layers = {n.removesuffix(".weight") for n in json.loads(sys.argv[4])}
again = reader.sparsity_compressor.compress(load_file(dense), layers)
save_file({n: t.contiguous() for n, t in again.items()}, out / "theirs.safetensors")
"""


@pytest.mark.slow
def test_compressed_tensors_reads_the_bitmask_folder(reader: Path, tmp_path: Path) -> None:
    """Version 0.14 gives back every weight bit for bit, and stores the same bits itself (O27)."""
    _, model, bundle, _ = llama()
    told = pruning.export(bundle, model, "sparse-24-bitmask", tmp_path / "packed")
    pruning.export(bundle, model, "hf", tmp_path / "dense")
    config = json.loads((tmp_path / "packed" / "config.json").read_text())["quantization_config"]
    assert config["sparsity_config"]["ignore"] == ["lm_head"]
    out = tmp_path / "out"
    out.mkdir()
    dense = tmp_path / "dense" / "model.safetensors"
    done = subprocess.run(
        [sys.executable, "-c", DECOMPRESS, str(tmp_path / "packed"), str(out), str(dense),
         json.dumps(told.layers)],
        env={**os.environ, "PYTHONPATH": str(reader)},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = load_file(dense)
    back = load_file(out / "dense.safetensors")
    assert back.keys() == expected.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in expected.items())
    ours = load_file(tmp_path / "packed" / "model.safetensors")
    theirs = load_file(out / "theirs.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def test_the_bitmask_folder_is_read_back(tmp_path: Path) -> None:
    """`import_masks` finds the masks in llm-compressor's folders, packed and dense with zeros."""
    _, model, bundle, _ = llama()
    told = pruning.export(bundle, model, "sparse-24-bitmask", tmp_path / "packed")
    pruning.export(bundle, model, "hf", tmp_path / "dense")
    masks = pruning.masks_of(model)
    for folder in ("packed", "dense"):
        found = pruning.import_masks(tmp_path / folder, "llm-compressor")
        assert set(found) == set(told.layers)
        assert all(torch.equal(each.mask, masks[name]) for name, each in found.items())
        assert {each.headroom for each in found.values()} == {0.0}
    config = tmp_path / "dense" / "config.json"
    content = json.loads(config.read_text())
    sparsity = {"format": "dense", "ignore": ["re:.*q_proj$"]}
    content["quantization_config"] = {"sparsity_config": sparsity}
    config.write_text(json.dumps(content))
    assert len(pruning.import_masks(tmp_path / "dense", "llm-compressor")) == 6
    content["quantization_config"]["config_groups"] = {"group_0": {}}
    config.write_text(json.dumps(content))
    with pytest.raises(ExportError, match="quantized"):
        pruning.import_masks(tmp_path / "dense", "llm-compressor")


def test_a_head_outside_the_pattern_is_not_compressed(tmp_path: Path) -> None:
    """A weight that is no 2:4 stays dense, listed as ignored; forcing it is an error (O27)."""
    dense, _, _, tokens = llama()
    model = copy.deepcopy(dense)
    recipe = {
        "solver": "none",
        "layer": [{"match": "lm_head", "pattern": "4:8"}, {"match": "*proj*", "pattern": "2:4"}],
    }
    result = pruning.prune(model, recipe, example_inputs=(), example_kwargs={"input_ids": tokens})
    told = pruning.export(result.bundle, model, "sparse-24-bitmask", tmp_path / "out")
    assert "groups of 4 hold more than 2" in told.left["lm_head.weight"]
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert config["sparsity_config"]["ignore"] == ["lm_head"]
    stored = load_file(tmp_path / "out" / "model.safetensors")
    mask = pruning.masks_of(model)["lm_head.weight"]
    assert torch.equal(stored["lm_head.weight"] != 0, mask)
    with pytest.raises(ExportError, match=r"lm_head\.weight"):
        pruning.export(result.bundle, model, "sparse-24-bitmask", tmp_path / "no", strict=True)
    assert not (tmp_path / "no").exists()
