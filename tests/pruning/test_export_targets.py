"""`pruning.export`: one call, every target, what is refused, and files that stay whole."""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, load_model
from torch import nn

import pruning
import sparsekernels as sk
from permsearch.errors import FileError, MissingExtra, UnknownName
from permsearch.patterns import NM
from pruning import exports
from pruning.errors import BundleMismatch, ExportError
from pruning.exports.extras import needed

FEW = {"steps": 60, "layer": [{"match": ["up", "down"], "pattern": "2:4"}]}


class Net(nn.Module):
    """A small network whose inner axes are free."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, 10)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        found: torch.Tensor = self.head(self.down(self.up(value).relu()).relu())
        return found


@cache
def made(recipe: str) -> tuple[Net, nn.Module, Any, torch.Tensor]:
    """Prune once by each recipe."""
    torch.manual_seed(0)
    dense, model, value = Net(), Net(), torch.randn(5, 32)
    model.load_state_dict(dense.state_dict())
    result = pruning.prune(model.eval(), json.loads(recipe), example_inputs=value)
    return dense.eval(), model, result.bundle, value


def pruned(recipe: Any = None) -> tuple[Net, nn.Module, Any, torch.Tensor]:
    """Return the dense net, the pruned one with its masks on, its bundle, and an input."""
    return copy.deepcopy(made(json.dumps(recipe or FEW)))


def assert_zeros(weight: torch.Tensor, mask: torch.Tensor) -> None:
    """Check that what the mask drops is +0.0."""
    assert bool((weight[~mask] == 0).all())
    assert not bool(torch.signbit(weight[~mask]).any())


def test_a_file_of_zeros(tmp_path: Path) -> None:
    """A fresh net loads the file and computes what the masked one does; -0.0 never appears."""
    _, model, bundle, value = pruned()
    with torch.no_grad():
        model.up.parametrizations.weight.original.masked_fill_(
            ~pruning.masks_of(model)["up.weight"], -0.0
        )
    told = pruning.export(bundle, model, path=tmp_path / "m.safetensors")
    fresh = Net().eval()
    load_model(fresh, tmp_path / "m.safetensors")
    assert torch.equal(fresh(value), model(value))
    for name, mask in pruning.masks_of(model).items():
        assert_zeros(fresh.get_parameter(name), mask)
        assert NM(2, 4).accepts((fresh.get_parameter(name) != 0).numpy())
    assert told.layers == ("up.weight", "down.weight")
    assert "2 weights as safetensors" in str(told)


def test_the_model_is_left_as_it_is(tmp_path: Path) -> None:
    """Masks stay on, parameters stay the same objects, values do not change."""
    _, model, bundle, value = pruned()
    before, output = [id(p) for p in model.parameters()], model(value)
    for to, path in (("safetensors", tmp_path / "m.safetensors"), ("sparsekernels", None),
                     ("torch-prune", None), ("bsr", None)):  # fmt: skip
        options = {"blocks": (4, 4)} if to == "bsr" else {}
        pruning.export(bundle, model, to, path, **options)
        assert [id(p) for p in model.parameters()] == before
        assert torch.equal(model(value), output)
        assert set(pruning.masks_of(model)) == set(bundle)


def test_every_state_of_the_model_is_known(tmp_path: Path) -> None:
    """Dense, masked, trained, detached, trained and detached: each gives its own zeros."""
    dense, model, bundle, value = pruned()
    before = pruning.export(bundle, dense, "sparsekernels").result
    assert torch.allclose(before(value), model(value), atol=1e-5)
    with torch.no_grad():
        for weight in (model.up, model.down):
            weight.parametrizations.weight.original.mul_(1.5)
    output = model(value)
    assert torch.equal(pruning.export(bundle, model, "torch-prune").result(value), output)
    pruning.detach_masks_(model)
    assert torch.equal(pruning.export(bundle, model, "torch-prune").result(value), output)
    with torch.no_grad():
        model.up.weight.add_(1.0)
    with pytest.raises(BundleMismatch, match=r"up\.weight: this is neither the weight"):
        pruning.export(bundle, model, path=tmp_path / "m.safetensors")
    with torch.no_grad():
        dense.up.weight.add_(1.0)
    told = pruning.export(bundle, dense, path=tmp_path / "m.safetensors", check=False)
    weight = load_file(tmp_path / "m.safetensors")["up.weight"]
    assert_zeros(weight, torch.from_numpy(np.array(bundle["up.weight"].mask)))
    assert told.path == tmp_path / "m.safetensors"


def test_packed_layers_compute_the_same() -> None:
    """`sparsekernels`: the swapped copy computes what the masked net does; its file unpacks."""
    _, model, bundle, value = pruned()
    told = pruning.export(bundle, model, "sparsekernels")
    assert isinstance(told.result.up, sk.SparseLinear)
    assert torch.allclose(told.result(value), model(value), atol=1e-5)


def test_packed_files(tmp_path: Path) -> None:
    """Packed, semi-structured and block-sparse files give back each masked weight, bit for bit."""
    _, model, bundle, _ = pruned()
    path = tmp_path / "packed.safetensors"
    pruning.export(bundle, model, "sparsekernels", path)
    for name, packed in sk.load_packed(path).items():
        assert torch.equal(packed.unpack(), weight(model, name))
    wide = pruned({"layer": [{"match": "*", "pattern": "2:4"}], "solver": "none"})
    told = pruning.export(wide[2], wide[1], "semi-structured", path, dtype="float16")
    tensors = load_file(path)
    assert "10 rows are no multiple of 32" in told.left["head.weight"]
    for name in told.layers:
        parts = (tensors[f"{name}.{part}"] for part in ("values", "meta"))
        unpacked = exports.SemiStructured(*parts).unpack()
        assert torch.equal(unpacked, weight(wide[1], name).half())
    blocks = {"solver": "none", "layer": [{"match": "up", "pattern": "block:4x4@0.5"}]}
    _, blocky, bundle, _ = pruned(blocks)
    pruning.export(bundle, blocky, "bsr", path)
    tensors = load_file(path)
    parts = [tensors[f"up.weight.bsr_{part}"] for part in ("crow_indices", "col_indices", "values")]
    assert parts[2].shape == (64, 4, 4)
    back = torch.sparse_bsr_tensor(*parts, size=(64, 32), check_invariants=True).to_dense()
    assert torch.equal(back, weight(blocky, "up.weight"))


def weight(model: nn.Module, name: str) -> torch.Tensor:
    """Return a layer's weight as it computes with it."""
    found = model.get_submodule(name.rpartition(".")[0]).weight
    assert isinstance(found, torch.Tensor)
    return found.detach()


def test_torch_prune_and_sparsifiers(tmp_path: Path) -> None:
    """Torch's own tools load the state that was written, masks included."""
    from torch.nn.utils import prune

    _, model, bundle, value = pruned()
    pruning.export(bundle, model, "torch-prune", tmp_path / "prune.safetensors")
    fresh = Net().eval()
    for layer in (fresh.up, fresh.down):
        prune.identity(layer, "weight")
    fresh.load_state_dict(load_file(tmp_path / "prune.safetensors"))
    assert torch.equal(fresh(value), model(value))
    told = pruning.export(bundle, model, "sparsifier", tmp_path / "sparsifier.pt")
    state = torch.load(tmp_path / "sparsifier.pt", weights_only=False)["state"]
    for name, mask in pruning.masks_of(model).items():
        assert torch.equal(state[name]["mask"] != 0, mask)
    told.result.squash_mask()
    assert torch.equal(told.result.model(value), model(value))


def test_names_and_options_are_checked(tmp_path: Path) -> None:
    """Unknown targets and options offer the known ones; a missing path or extra is told."""
    _, model, bundle, _ = pruned()
    with pytest.raises(UnknownName, match=r"unknown target 'safetensor'; did you mean 'safetens"):
        pruning.export(bundle, model, "safetensor")
    with pytest.raises(UnknownName, match="unknown option of semi-structured 'typ'"):
        pruning.export(bundle, model, "semi-structured", typ="float16")
    with pytest.raises(ExportError, match="give path="):
        pruning.export(bundle, model)
    with pytest.raises(ExportError, match="no model of transformers"):
        pruning.export(bundle, model, path=tmp_path / "folder")
    with pytest.raises(ExportError, match="example_inputs"):
        pruning.export(bundle, model, "onnx", tmp_path / "m.onnx")
    with pytest.raises(MissingExtra, match=r"permsearch\[onnx\]"):
        needed("no_such_package", "onnx")
    with pytest.raises(ExportError, match=r"(?s)2 weights cannot be bsr.*2:4 is no.*up\.weight"):
        pruning.export(bundle, model, "bsr")
    for name in exports.TARGETS:
        assert callable(exports.TARGETS[name].load())
    assert not list(tmp_path.iterdir())


def test_a_broken_mask_is_refused(tmp_path: Path) -> None:
    """A bundle whose mask breaks its pattern writes nothing; nor does one of other masks."""
    dense, model, bundle, _ = pruned()
    entry = bundle["up.weight"]
    mask = np.array(entry.mask)
    mask[0, :4] = True
    broken = pruning.MaskBundle({"up.weight": replaced(entry, mask=mask)}, {}, {})
    with pytest.raises(ExportError, match=r"up\.weight: its mask breaks 2:4"):
        pruning.export(broken, dense, path=tmp_path / "m.safetensors")
    with pytest.raises(BundleMismatch, match="is not the bundle's"):
        pruning.export(broken, model, path=tmp_path / "m.safetensors")
    part = pruning.MaskBundle({"up.weight": entry}, {}, {})
    with pytest.raises(BundleMismatch, match=r"masks on down\.weight that the bundle"):
        pruning.export(part, model, path=tmp_path / "m.safetensors")
    other = Net(64)
    with pytest.raises(BundleMismatch, match="another model"):
        pruning.export(bundle, other, path=tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


def replaced(entry: Any, **changes: Any) -> Any:
    """Return a bundle's entry with changes."""
    from dataclasses import replace

    return replace(entry, **changes)


def test_strict_names_what_is_left() -> None:
    """A layer without the target's form is told with the reason, or is an error."""
    _, model, bundle, _ = pruned({"solver": "none", "layer": [{"match": "*", "pattern": "2:4"}]})
    told = pruning.export(bundle, model, "semi-structured", dtype=torch.float16)
    assert list(told.left) == ["up.weight", "head.weight"]
    assert "dense with zeros" in str(told)
    with pytest.raises(ExportError, match=r"10 rows.*: head\.weight"):
        pruning.export(bundle, model, "semi-structured", dtype=torch.float16, strict=True)


def test_gathered_layers(tmp_path: Path) -> None:
    """A layer with an order at run time is found behind its index; plain folders refuse it."""
    recipe = {"steps": 40, "layer": [{"match": "up", "pattern": "2:4", "gather": True}]}
    dense, model, bundle, value = pruned(recipe)
    told = pruning.export(bundle, model, "sparsekernels")
    assert told.layers == ("up.layer.weight",)
    assert torch.allclose(told.result(value), model(value), atol=1e-5)
    with pytest.raises(ExportError, match=r"index their input \(up"):
        pruning.export(bundle, model, "hf", tmp_path / "out")
    packed = pruning.export(bundle, dense, "sparsekernels").result
    assert torch.allclose(packed(value), model(value), atol=1e-5)


def test_bundles_of_trained_models(tmp_path: Path) -> None:
    """`current_bundle` fits what training made of the model, and nothing else."""
    dense, model, bundle, value = pruned()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    pruning.keep_masked(model, optimizer)
    model(value).square().sum().backward()
    optimizer.step()
    after = pruning.current_bundle(bundle, model)
    after.save(tmp_path / "after")
    masks = pruning.detach_masks_(model)
    output = model(value)
    pruning.MaskBundle.load(tmp_path / "after").apply_(model)
    assert torch.equal(model(value), output)
    assert all(torch.equal(mask, masks[name]) for name, mask in pruning.masks_of(model).items())
    with pytest.raises(BundleMismatch):
        after.apply_(dense)
    update = {"up.weight": masks["up.weight"] & (torch.arange(32) % 4 != 0)}
    pruning.update_masks_(model, update)
    later = pruning.current_bundle(after, model)
    assert torch.equal(torch.from_numpy(later["up.weight"].mask), update["up.weight"])
    assert "retained" not in later["up.weight"].record
    pruning.update_masks_(model, {"up.weight": torch.ones(64, 32, dtype=torch.bool)})
    with pytest.raises(BundleMismatch, match="none of 2:4"):
        pruning.current_bundle(after, model)


FILES: dict[str, dict[str, Any]] = {
    "safetensors": {},
    "sparsekernels": {},
    "torch-prune": {},
    "sparsifier": {},
    "modelopt": {},
    "semi-structured": {"dtype": "float16"},
    "bsr": {"blocks": (4, 4)},
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("when", ["while it is written", "when it is flushed"])
@pytest.mark.parametrize("to", FILES)
def test_a_full_disk_leaves_the_old_file_whole(
    to: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk is full in the middle, what stood at the path stays, and no litter."""
    if to == "modelopt":
        pytest.importorskip("modelopt", reason="needs the extra permsearch[modelopt]")
    _, model, bundle, _ = pruned()
    told = pruning.export(bundle, model, to, tmp_path / "whole.safetensors", **FILES[to])
    assert told.layers
    (tmp_path / "whole.safetensors").unlink()
    path = tmp_path / "old.safetensors"
    path.write_bytes(b"before")
    if when == "when it is flushed":
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(FileError, match="No space left"):
            pruning.export(bundle, model, to, path, **FILES[to])
    else:
        with (
            short_files(1000),
            pytest.raises(FileError, match=r"old\.safetensors: cannot"),
        ):
            pruning.export(bundle, model, to, path, **FILES[to])
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@contextmanager
def short_files(size: int) -> Iterator[None]:
    """Have the system refuse to write files beyond so many bytes, as a full disk does."""
    resource = pytest.importorskip("resource", reason="needs a system that limits files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def full(_: int) -> None:
    """Answer as a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_mixed_layouts() -> None:
    """Transposed convolutions and GPT-2's layers are exported along the axis they contract."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ConvTranspose2d(8, 8, 3))
    result = pruning.prune(model, {"layer": [{"match": "2", "pattern": "2:4"}]},
                           example_inputs=torch.randn(1, 3, 8, 8))  # fmt: skip
    assert result.bundle["2.weight"].record["axis"] == 0
    with pytest.raises(ExportError, match="axis 1"):
        pruning.export(result.bundle, model, "sparsekernels")
    found = pruning.export(result.bundle, model, "torch-prune").result
    value = torch.randn(1, 3, 8, 8)
    assert torch.equal(found(value), model(value))
    groups = (found[2].weight != 0).movedim(0, -1).reshape(-1, 4)
    assert int(groups.sum(1).max()) == 2
