"""`permsearch permute`: a model folder in, the same folder out, with a report."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import permsearch as ps
from pruning import checkpoint_job, groupwise, model_folder
from pruning.checkpoint_job import Job
from pruning.cli import permute_command
from pruning.formulate import formulate
from pruning.gather import Gathered
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
    text = page.read_text()
    assert "model.layers.0.mlp.down_proj.weight" in text.replace("<wbr>", "")
    assert all(
        f"{group['retained']:.4f}" in text for group in content["groups"] if "bound" in group
    )


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


def test_a_folder_is_whole_or_not_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves no target; what was searched is kept for the next run."""
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    out = tmp_path / "deep" / "out"
    with monkeypatch.context() as patch:
        patch.setattr(model_folder, "_write_tensor", failing)
        done = run(folder, "-p", "2:4", "--steps", 0, "--out", out)
        assert "disk is full" in str(done.exception)
        assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out.job"]
    assert run(folder, "-p", "2:4", "--steps", 0, "--out", out).exit_code == 0
    assert (out / "1_Pooling" / "config.json").read_text() == "{}"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def failing(*args: object) -> None:
    """Fail as a full disk does."""
    raise OSError(28, "disk is full")


def test_files_that_no_index_names_are_copied(folder: Path, tmp_path: Path) -> None:
    """With an index, its shards are the model; a stray file of weights is left as it is."""
    shards = sorted(folder.glob("*.safetensors"))
    files = {name: shard.name for shard in shards for name in load_file(shard)}
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    save_file({"other": torch.ones(4)}, folder / "stray.safetensors")
    out = tmp_path / "out"
    assert run(folder, "-p", "2:4", "--steps", 50, "--out", out).exit_code == 0
    assert (out / "stray.safetensors").read_bytes() == (folder / "stray.safetensors").read_bytes()
    for shard in shards:  # headers are the same to the byte, data is not
        old, new = shard.read_bytes(), (out / shard.name).read_bytes()
        length = 8 + int.from_bytes(old[:8], "little")
        assert old[:length] == new[:length]
        assert old != new


def test_gathered_layers_are_stored_as_such(folder: Path, tmp_path: Path) -> None:
    """Their names say so, the folder computes what it computed, and torch modules can load it."""
    out, numbers = tmp_path / "out", tmp_path / "r.json"
    done = run(
        folder, "-p", "2:4", "--gather", "*.1.*q_proj", "--steps", 200, "--out", out,
        "--json", numbers,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "is gathered: " in done.output
    name = "model.layers.1.self_attn.q_proj"
    tensors = {k: t for shard in out.glob("*.safetensors") for k, t in load_file(shard).items()}
    assert f"{name}.weight" not in tensors
    assert tensors[f"{name}.layer.weight"].dtype == torch.bfloat16
    assert distance(outputs(folder), outputs(out)) < 1e-12
    content = json.loads(numbers.read_text())
    states = {layer["tensor"]: layer["state"] for layer in content["layers"]}
    assert states[f"{name}.weight"] == "gathered"
    assert [cost["layer"] for cost in content["gathers"]] == [name]
    layer = Gathered(torch.nn.Linear(16, 16, bias=False), range(16))
    layer.load_state_dict(
        {"order": tensors[f"{name}.order"], "layer.weight": tensors[f"{name}.layer.weight"].float()}
    )
    again = tmp_path / "again"
    assert run(out, "-p", "2:4", "--steps", 50, "--out", again).exit_code == 0
    assert distance(outputs(folder), outputs(again)) < 1e-12


def test_layers_that_cannot_be_gathered_are_told(folder: Path, tmp_path: Path) -> None:
    """A glob that fits nothing is an error, before any work."""
    done = run(folder, "-p", "2:4", "--gather", "*.nothing", "--out", tmp_path / "out")
    assert done.exit_code != 0
    assert "nothing" in str(done.exception)


def test_numbers_are_held_group_by_group(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's scores are gone before the next are read; sums are those of the whole problem."""
    job = Job.open(folder, "2:4")
    held: list[weakref.ref[Any]] = []

    def watched(problem: ps.Problem, *args: Any, **options: Any) -> ps.SearchResult:
        gc.collect()
        assert all(earlier() is None for earlier in held)
        held.extend(weakref.ref(term.scores) for term in problem.terms)
        return ps.solve(problem, *args, **options)

    monkeypatch.setattr(groupwise, "solve", watched)
    found = groupwise.search_groups(job.network, job.plan, state=job.tensors, stop=ps.MaxSteps(50))
    whole = formulate(job.network, "2:4", state=job.tensors)
    assert len(held) == 15  # the weights of two layers, and the head
    assert found.share("baseline") * whole.problem.total == pytest.approx(
        whole.problem.evaluate(whole.problem.identity())
    )
    assert found.share("score") * whole.problem.total == pytest.approx(
        whole.problem.evaluate(found.solution)
    )


def test_a_model_too_large_to_run_is_permuted_and_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no memory is left for a run, the report tells that nothing was compared."""
    monkeypatch.setattr(checkpoint_job, "free_memory", lambda: 1000)
    done = run(folder, "-p", "2:4", "--steps", 50, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "outputs not compared" in done.output
    assert distance(outputs(folder), outputs(tmp_path / "out")) < 1e-12
