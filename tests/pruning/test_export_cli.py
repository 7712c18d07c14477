"""`permsearch export`: from a folder and a bundle to what another tool reads."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

import permsearch as ps
import pruning
import sparsekernels as sk
from permsearch.cli import cli
from pruning.exports import TARGETS

transformers = pytest.importorskip("transformers", reason="needs the extra permsearch[hf]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny encoder and a bundle that `permsearch search` wrote for it."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        vocab_size=50, max_position_embeddings=32, architectures=["BertModel"],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("export")
    transformers.BertModel(config).save_pretrained(path / "model")
    done = CliRunner().invoke(
        cli,
        ["search", str(path / "model"), "-p", "2:4", "-t", "*encoder*weight", "--steps", "20",
         "--out", str(path / "masks")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


def run(folder: Path, *args: object) -> Any:
    """Run the command on the folder."""
    fixed = ["export", str(folder / "model"), "--bundle", str(folder / "masks")]
    return CliRunner().invoke(cli, [*fixed, *map(str, args)])


def test_a_file_is_sent_to_pack(tmp_path: Path) -> None:
    """Where a folder is needed, one line says what takes a file."""
    np.save(tmp_path / "w.npy", np.ones((4, 4)))
    fixed = ["export", str(tmp_path / "w.npy"), "-b", str(tmp_path), "--to", "hf"]
    done = CliRunner().invoke(cli, [*fixed, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "permsearch pack" in done.output


def test_the_command_is_registered() -> None:
    """It hangs in the group of commands, answers --help, and lists every target."""
    assert "export" in {point.name for point in entry_points(group="permsearch.commands")}
    listed = CliRunner().invoke(cli, ["export", "--list"]).output
    assert all(name in listed for name in TARGETS)
    assert "--bundle" in CliRunner().invoke(cli, ["export", "--help"]).output


def test_a_folder_with_zeros(folder: Path, tmp_path: Path) -> None:
    """The folder loads, its weights follow the bundle's masks, and the JSON tells which."""
    done = run(folder, "--to", "hf", "--out", tmp_path / "zeros", "--json", tmp_path / "t.json")
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "t.json").read_text())
    bundle = pruning.MaskBundle.load(folder / "masks")
    assert set(told["weights"]) == set(bundle)
    loaded = transformers.BertModel.from_pretrained(tmp_path / "zeros")
    for name, entry in bundle.items():
        weight = loaded.get_parameter(name).detach().numpy()
        assert not weight[~entry.mask].any()
        assert not np.signbit(weight[~entry.mask]).any()


def test_packed_files(folder: Path, tmp_path: Path) -> None:
    """Packed weights unpack to the masked ones, the search's orders taken into account."""
    dense = load_file(folder / "model" / "model.safetensors")
    out = tmp_path / "packed.safetensors"
    done = run(folder, "--to", "sparsekernels", "--out", out, "--json", "-")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["left"] == []
    packed = sk.load_packed(out)
    for name, entry in pruning.MaskBundle.load(folder / "masks").items():
        assert torch.equal(packed[name].unpack(), dense[name] * torch.from_numpy(entry.mask.copy()))


def test_forms_that_orders_do_not_fit(folder: Path, tmp_path: Path) -> None:
    """Masks that are 2:4 in another order only are told; with --strict that is an error."""
    bundle = pruning.MaskBundle.load(folder / "masks")
    assert not any(ps.NM(2, 4).accepts(entry.mask) for entry in bundle.values())
    done = run(folder, "--to", "semi-structured", "--out", tmp_path / "x.safetensors")
    assert done.exit_code == 1
    assert "cannot be semi-structured" in done.output
    done = run(folder, "--to", "sparse-24-bitmask", "--out", tmp_path / "x", "--strict")
    assert done.exit_code == 1
    assert "hold more than 2 non-zeros" in done.output
    assert not list(tmp_path.iterdir())


def test_targets_that_load_the_model(folder: Path, tmp_path: Path) -> None:
    """torch-prune and ONNX load the model by transformers; ONNX takes its own example."""
    done = run(folder, "--to", "torch-prune", "--out", tmp_path / "p.safetensors")
    assert done.exit_code == 0, done.output
    state = load_file(tmp_path / "p.safetensors")
    name = "encoder.layer.0.output.dense.weight"
    mask = pruning.MaskBundle.load(folder / "masks")[name].mask
    assert np.array_equal(state[f"{name}_mask"].numpy() != 0, mask)
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    pytest.importorskip("onnxscript", reason="needs the extra permsearch[onnx]")
    done = run(folder, "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert done.exit_code == 0, done.output
    assert "6 weights as onnx" in done.output
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert run(folder, "--to", "hf", "--out", tmp_path / "zeros").exit_code == 0
    model = transformers.BertModel.from_pretrained(tmp_path / "zeros").eval()
    inputs = {key: value for key, value in model.dummy_inputs.items()}
    fed = {each.name: inputs[each.name].numpy() for each in session.get_inputs()}
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state.numpy()
    assert np.allclose(session.run(None, fed)[0], expected, atol=1e-4)


def test_wrong_calls(folder: Path, tmp_path: Path) -> None:
    """Unknown targets and another model's weights are told; nothing is written."""
    done = run(folder, "--to", "onx", "--out", tmp_path / "x")
    assert done.exit_code == 2
    assert "did you mean 'onnx'" in done.output
    other = transformers.BertModel.from_pretrained(folder / "model")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.save_pretrained(tmp_path / "other")
    args = ["export", str(tmp_path / "other"), "-b", str(folder / "masks"), "--to", "hf"]
    done = CliRunner().invoke(cli, [*args, "--out", str(tmp_path / "x")])
    assert done.exit_code == 1
    assert "neither the weight that the mask was made for" in done.output
    assert not (tmp_path / "x").exists()
    done = CliRunner().invoke(cli, [*args, "--out", str(tmp_path / "x"), "--no-check"])
    assert done.exit_code == 0, done.output
