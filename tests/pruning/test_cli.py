"""`permsearch permute`: a model folder in, the same folder out, with a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pruning.cli import permute_command
from pruning.specs import checkpoint, example_inputs
from pruning.verify import distance

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a model folder of two shards."""
    torch.manual_seed(0)
    shapes = {"q": (16, 16), "k": (8, 16), "v": (8, 16), "o": (16, 16)}
    tensors: dict[str, torch.Tensor] = {"model.embed_tokens.weight": torch.randn(40, 16)}
    for layer in range(2):
        here = f"model.layers.{layer}."
        for part, shape in shapes.items():
            tensors[f"{here}self_attn.{part}_proj.weight"] = torch.randn(shape) / 4
        for part, shape in {"gate": (24, 16), "up": (24, 16), "down": (16, 24)}.items():
            tensors[f"{here}mlp.{part}_proj.weight"] = torch.randn(shape) / 4
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{here}{norm}.weight"] = torch.rand(16) + 0.5
    tensors["model.norm.weight"] = torch.rand(16) + 0.5
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    (model / "tokenizer.txt").write_text("kept")
    names = list(tensors)
    for index, part in enumerate((names[:8], names[8:])):
        shard = {name: tensors[name].to(torch.bfloat16) for name in part}
        save_file(shard, model / f"model-{index}.safetensors", metadata={"format": "pt"})
    return model


def run(*args: object) -> Any:
    """Run the command."""
    return CliRunner().invoke(permute_command, [str(arg) for arg in args])


def outputs(model: Path) -> torch.Tensor:
    """Return the logits of a folder's model in float64."""
    tensors = {
        name: t
        for shard in sorted(model.glob("*.safetensors"))
        for name, t in load_file(shard).items()
    }
    module = checkpoint(tensors, CONFIG).double()
    found: torch.Tensor = module(*example_inputs(CONFIG))
    return found


def test_folder_in_folder_out(folder: Path, tmp_path: Path) -> None:
    """Same shards, names, types and files; same function; more kept; a report in both forms."""
    out, page, numbers = tmp_path / "out", tmp_path / "r.html", tmp_path / "r.json"
    done = run(folder, "-p", "2:4", "--steps", 200, "--out", out, "--html", page, "--json", numbers)
    assert done.exit_code == 0, done.output
    assert {f.name for f in out.iterdir()} == {f.name for f in folder.iterdir()}
    assert (out / "tokenizer.txt").read_text() == "kept"
    for shard in folder.glob("*.safetensors"):
        before, after = load_file(shard), load_file(out / shard.name)
        assert {n: (t.shape, t.dtype) for n, t in before.items()} == {
            n: (t.shape, t.dtype) for n, t in after.items()
        }
        with safe_open(out / shard.name, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}
    assert distance(outputs(folder), outputs(out)) < 1e-12
    content = json.loads(numbers.read_text())
    assert content["total"]["retained"] > content["total"]["baseline"]
    assert content["proof"]["unchanged"]
    assert {layer["state"] for layer in content["layers"]} <= {"absorbed", "left"}
    residual = max(content["groups"], key=lambda group: len(group["members"]))
    assert residual["baseline"] < residual["retained"] <= residual["bound"]
    assert "model.embed_tokens.weight" in page.read_text()


def test_dry_run_tells_groups(folder: Path) -> None:
    """Nothing is searched or written."""
    done = run(folder, "-p", "2:4", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "9 groups" in done.output


def test_the_model_itself_is_not_overwritten(folder: Path) -> None:
    """A target that is the source, or is not empty, is refused before any work."""
    done = run(folder, "-p", "2:4", "--out", folder)
    assert done.exit_code != 0
    assert "model itself" in str(done.exception)
    assert run(folder, "-p", "2:4").exit_code == 2
