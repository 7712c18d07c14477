"""`permsearch prune`: a folder in, the same folder with orders and zeros out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

import permsearch as ps
from pruning import checkpoint_prune
from pruning.errors import RecipeError
from pruning.exports import import_masks
from pruning.prune_cli import prune_command

CONFIG = {
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a model folder."""
    torch.manual_seed(0)
    here = "model.layers.0."
    shapes = {
        "model.embed_tokens": (40, 16),
        f"{here}self_attn.q_proj": (16, 16),
        f"{here}self_attn.k_proj": (8, 16),
        f"{here}self_attn.v_proj": (8, 16),
        f"{here}self_attn.o_proj": (16, 16),
        f"{here}mlp.gate_proj": (24, 16),
        f"{here}mlp.up_proj": (24, 16),
        f"{here}mlp.down_proj": (16, 24),
        "lm_head": (40, 16),
    }
    tensors = {f"{n}.weight": (torch.randn(s) / 4).bfloat16() for n, s in shapes.items()}
    for norm in (f"{here}input_layernorm", f"{here}post_attention_layernorm", "model.norm"):
        tensors[f"{norm}.weight"] = torch.ones(16).bfloat16()
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    return model


def run(*args: object) -> Any:
    """Run the command."""
    return CliRunner().invoke(prune_command, [str(arg) for arg in args])


def test_a_folder_is_pruned_by_a_recipe(folder: Path, tmp_path: Path) -> None:
    """What the recipe names follows its pattern, the rest is dense, and the report tells both."""
    recipe, out = tmp_path / "recipe.toml", tmp_path / "out"
    recipe.write_text(
        'steps = 100\n[[layer]]\nmatch = "lm_head"\npattern = "dense"\n'
        '[[layer]]\nmatch = "*mlp*"\npattern = "1:4"\n[[layer]]\nmatch = "*"\npattern = "2:4"\n',
        "utf-8",
    )
    outputs = ("--json", tmp_path / "r.json", "--html", tmp_path / "r.html")
    done = run(folder, "--recipe", recipe, "--out", out, *outputs)
    assert done.exit_code == 0, done.output
    found = load_file(out / "model.safetensors")
    masks = import_masks(found)
    assert set(masks) == {n for n in found if "proj" in n}
    for name, each in masks.items():
        pattern = ps.NM(1 if "mlp" in name else 2, 4)
        assert pattern.accepts(each.mask.numpy())
        assert each.density == pattern.density
    report = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert report["proof"]["unchanged"]
    assert report["total"]["retained"] > report["total"]["baseline"]
    assert {row["tensor"] for row in report["pruned"]} == set(masks)
    assert "lm_head.weight" in report["dense"]
    for row in report["pruned"]:
        assert 0.3 < row["retained"] <= row["bound"] < 1
        assert 0.3 < row["baseline"] <= row["bound"]  # a shared order may cost one weight
        assert row["scores"] == "magnitude"
        shares = found[row["tensor"]].abs().double()
        assert float(shares.sum()) == pytest.approx(row["retained"] * row["total"], rel=1e-6)
    assert report["about"]["recipe"] == str(recipe)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "model.layers.0.mlp.<wbr>down_<wbr>proj.<wbr>weight".replace("<wbr>", "") in (
        page.replace("<wbr>", "")
    )


def test_a_dry_run_tells_where_layers_can_run(folder: Path, tmp_path: Path) -> None:
    """Each target of the recipe has its yes, or its no with the reason, for each layer."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'target = ["torch-semi-structured", "tensorrt"]\n'
        '[[layer]]\nmatch = "*up_proj"\npattern = "2:4"\n'
        '[[layer]]\nmatch = "*"\npattern = "dense"\n',
        "utf-8",
    )
    done = run(folder, "--recipe", recipe, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "eligible for tensorrt: yes" in done.output
    reason = "24 rows are no multiple of 32, which torch.bfloat16 needs"
    assert f"eligible for torch-semi-structured: no, {reason}" in done.output


def test_a_dry_run_writes_nothing(folder: Path, tmp_path: Path) -> None:
    """The plan is told, with every weight, and no folder appears."""
    done = run(folder, "--recipe", "2:4", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "model.layers.0.mlp.down_proj.weight: 2:4, mask, magnitude, absorbed" in done.output
    assert "orders to search" in done.output
    assert run(folder, "--recipe", "2:4").exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_what_needs_code_is_refused(folder: Path, tmp_path: Path) -> None:
    """A recipe that needs calibration is refused with the way out, before anything is written."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[[layer]]\nmatch = "*"\npattern = "2:4"\nmethod = "refit"\n', "utf-8")
    done = run(folder, "--recipe", recipe, "--out", tmp_path / "out")
    assert isinstance(done.exception, RecipeError)
    assert "pruning.prune in Python" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_masks_by_rows_are_those_of_the_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows at a time, in moved rows and columns, a mask and its share are the same."""
    reports = []
    for name, entries in (("whole", 1 << 20), ("rows", 48)):
        monkeypatch.setattr(checkpoint_prune, "_ENTRIES", entries)
        if name == "whole":
            monkeypatch.setattr(checkpoint_prune._Masks, "_by_rows", lambda *given: False)
        done = run(folder, "-r", "2:4", "--out", tmp_path / name, "--json", tmp_path / "r.json")
        monkeypatch.undo()
        assert done.exit_code == 0, done.output
        reports.append(json.loads((tmp_path / "r.json").read_text("utf-8"))["pruned"])
    whole, rows = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "rows"))
    assert all(torch.equal(whole[name], rows[name]) for name in whole)
    for one, other in zip(*reports, strict=True):
        for key in ("retained", "baseline", "total"):
            assert one[key] == pytest.approx(other[key], rel=1e-12)
        assert one["bound"] == pytest.approx(other["bound"], rel=1e-9)
        assert one["bound_kind"] == other["bound_kind"]


def test_outputs_may_be_free(folder: Path, tmp_path: Path) -> None:
    """--free-outputs lets rows of the head move, proves that, and makes another job of it."""
    job = ("--job", tmp_path / "job")
    done = run(folder, "-r", "8:16", "--out", tmp_path / "free", "--free-outputs", *job)
    assert done.exit_code == 0, done.output
    refused = run(folder, "-r", "8:16", "--out", tmp_path / "pinned", *job)
    assert "outputs free (now unset)" in str(refused.exception) + refused.output
