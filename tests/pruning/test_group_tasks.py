"""Searches of a checkpoint as tasks: planned from headers, small, repeatable, streamed alike."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.torch import save_file

import permsearch as ps
from permsearch.errors import ScoresError
from permsearch.io.safetensors_file import SafetensorsFile
from pruning import group_tasks
from pruning.checkpoint_job import Job
from pruning.cli import permute_command
from pruning.group_rows import GroupRows
from pruning.group_tasks import GroupOptions, GroupSearch, found_of, tasks_of
from pruning.model_folder import LazyTensors
from pruning.prune_cli import prune_command

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
STREAMED = GroupOptions("coarse", memory=0, seed=1)


def tensors() -> dict[str, torch.Tensor]:
    """Return the tensors of a small LLaMA."""
    torch.manual_seed(0)
    shapes = {"q": (32, 32), "k": (16, 32), "v": (16, 32), "o": (32, 32)}
    found = {"model.embed_tokens.weight": torch.randn(40, 32)}
    for layer in range(2):
        here = f"model.layers.{layer}."
        for part, shape in shapes.items():
            found[f"{here}self_attn.{part}_proj.weight"] = torch.randn(shape) / 4
        for part, shape in {"gate": (48, 32), "up": (48, 32), "down": (32, 48)}.items():
            found[f"{here}mlp.{part}_proj.weight"] = torch.randn(shape) / 4
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{here}{norm}.weight"] = torch.rand(32) + 0.5
    found["model.norm.weight"] = torch.rand(32) + 0.5
    return {name: tensor.to(torch.bfloat16) for name, tensor in found.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a model folder of two shards."""
    model, own = tmp_path / "model", tensors()
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    names = list(own)
    for index, part in enumerate((names[:8], names[8:])):
        save_file({name: own[name] for name in part}, model / f"model-{index}.safetensors")
    return model


def test_planning_reads_no_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups, shapes and costs come from headers and names alone."""

    def read(*args: object) -> Any:
        raise AssertionError("numbers are read")

    monkeypatch.setattr(LazyTensors, "__getitem__", read)
    monkeypatch.setattr(SafetensorsFile, "_numbers", read)
    plans = Job.open(folder, "2:4").plans(GroupOptions("coarse"))
    shapes = {plan.name: plan.shape for plan in plans if plan.shape is not None}
    assert {(s.columns, s.rows, s.segments) for s in shapes.values()} == {
        (32, 2 * 160 + 40, 1),  # the residual stream: q, k, v, gate, up of two layers, the head
        (48, 32, 1),
        (8, 64, 2),  # values of two heads, read by the outputs of two query heads each
    }
    assert all(plan.cost.cpu for plan in plans)
    read = [t.numel() for name, t in tensors().items() if t.dim() == 2]  # the embedding is the head
    assert sum(plan.entries for plan in plans) == sum(read)


def test_rows_are_those_of_the_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream of a group is the stack of its terms, a few rows at a time."""
    monkeypatch.setattr("pruning.group_rows._ENTRIES", 320)
    for plan in Job.open(folder, "2:4").plans(STREAMED):
        if not plan.streamed:
            continue
        source = plan.rows()
        assert isinstance(source, GroupRows)
        chunks = list(source.chunks())
        assert max(chunk.size for chunk in chunks) <= 320
        stacked = np.concatenate([term.scores for term in plan.problem().terms])
        assert np.array_equal(np.concatenate(chunks), stacked)
        assert stacked.shape == (source.rows, source.columns)


def test_streamed_groups_have_the_numbers_of_their_problems(folder: Path) -> None:
    """Row by row, start, score and total are those of the problem in memory, and more is kept."""
    plans = Job.open(folder, "2:4").plans(STREAMED)
    assert [plan.streamed for plan in plans].count(True) == 3
    for plan in plans:
        part = GroupSearch(STREAMED)(plan)
        problem = plan.problem()
        assert part.record["total"] == pytest.approx(problem.total, rel=1e-12)
        assert part.record["baseline"] == pytest.approx(problem.evaluate({}), rel=1e-12)
        assert part.record["score"] == pytest.approx(problem.evaluate(part.arrays), rel=1e-12)
        if plan.groups:
            assert part.record["baseline"] < part.record["score"] <= part.record["bound"]


@pytest.mark.parametrize(("solver", "count"), [("auto", 3), ("matching", 3), ("swap", 0)])
def test_only_some_solvers_leave_groups_to_the_coarse_level(
    folder: Path, solver: str, count: int
) -> None:
    """A solver that has no way by rows holds its groups, rather than being another silently."""
    plans = Job.open(folder, "2:4").plans(GroupOptions(solver, memory=0))
    assert sum(plan.streamed for plan in plans) == count


def test_tasks_can_be_sent_and_repeated(folder: Path) -> None:
    """A task is small, survives pickling, and gives the same part again, times apart."""
    options = GroupOptions("coarse", seed=2)
    tasks = tasks_of(Job.open(folder, "2:4").plans(options), options)
    assert len({task.name for task in tasks}) == len(tasks)
    for task in tasks:
        sent = pickle.dumps(task)
        assert len(sent) < 40_000
        one = GroupSearch(options)(task.payload)
        two = pickle.loads(pickle.dumps(GroupSearch(options)))(pickle.loads(sent).payload)
        timeless = [
            {key: value for key, value in part.record.items() if "seconds" not in key}
            for part in (one, two)
        ]
        assert timeless[0] == timeless[1]
        assert {k: v.tolist() for k, v in one.arrays.items()} == {
            k: v.tolist() for k, v in two.arrays.items()
        }


def test_fingerprints_follow_the_numbers_not_the_file(folder: Path, tmp_path: Path) -> None:
    """A copy counts as the same; other weights, seeds and solvers do not."""
    options = GroupOptions("coarse")

    def prints(model: Path, options: GroupOptions) -> dict[str, str]:
        return {
            t.name: t.fingerprint for t in tasks_of(Job.open(model, "2:4").plans(options), options)
        }

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    first = prints(folder, options)
    assert prints(copy, options) == first
    assert not set(prints(folder, GroupOptions("coarse", seed=1)).values()) & set(first.values())
    assert not set(prints(folder, GroupOptions("swap")).values()) & set(first.values())
    shard = copy / "model-1.safetensors"
    with safe_open(shard, "pt") as opened:
        own = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    own["model.layers.1.mlp.down_proj.weight"][0, 0] += 1
    save_file(own, shard)
    changed = {name for name, text in prints(copy, options).items() if text != first[name]}
    assert changed == {"model.layers.1.mlp.gate_proj.weight[0]"}


def test_the_way_of_reading_changes_no_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports and orders do not depend on whether groups are streamed or in memory."""
    seen: list[int] = []

    def watched(problem: ps.Problem, *args: Any, **options: Any) -> ps.SearchResult:
        seen.append(len(problem.terms))
        return ps.solve(problem, *args, **options)

    monkeypatch.setattr(group_tasks, "solve", watched)
    job = Job.open(folder, "2:4")
    content = job.run(GroupOptions("swap"))
    assert sorted(seen) == [1, 1, 1, 1, 11]
    assert content["total"]["retained"] > content["total"]["baseline"]
    tasks = tasks_of(job.plans(STREAMED), STREAMED)
    found = found_of([GroupSearch(STREAMED)(task.payload) for task in tasks], STREAMED)
    assert found.share("baseline") == pytest.approx(content["total"]["baseline"], rel=1e-12)
    assert found.retained > found.share("baseline")
    assert set(found.solution) == {name for task in tasks for name in task.payload.groups}


def test_bad_numbers_are_told_with_their_rows(folder: Path) -> None:
    """A value that is not a number ends the search with tensor, rows and index."""
    shard = folder / "model-1.safetensors"
    with safe_open(shard, "pt") as opened:
        own = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    own["model.layers.1.mlp.down_proj.weight"][5, 7] = float("nan")
    save_file(own, shard)
    plans = Job.open(folder, "2:4").plans(STREAMED)
    plan = next(p for p in plans if p.name == "model.layers.1.mlp.gate_proj.weight[0]")
    with pytest.raises(ScoresError, match=r"down_proj.weight, rows 0 to 31.*\(5, 7\)"):
        GroupSearch(STREAMED)(plan)


@pytest.mark.parametrize(("command", "asked"), [(permute_command, "-p"), (prune_command, "-r")])
def test_dry_run_tells_what_it_will_take(folder: Path, command: Any, asked: str) -> None:
    """Searches with sizes, seconds, memory and disk; as JSON too; nothing is written."""
    before = sorted(folder.parent.iterdir())
    told = CliRunner().invoke(
        command, [str(folder), asked, "2:4", "--group-memory", "0", "--dry-run"]
    )
    assert told.exit_code == 0, told.output
    assert "row by row" in told.output
    assert "of one core" in told.output
    numbers = CliRunner().invoke(command, [str(folder), asked, "2:4", "--dry-run", "--json", "-"])
    content = json.loads(numbers.output)
    assert content["dry_run"]
    assert content["estimated"]
    assert content["written"] == sum(2 * t.numel() for t in tensors().values())
    assert {row["columns"] for row in content["searches"]} == {8, 32, 48}
    assert sorted(folder.parent.iterdir()) == before


def test_unknown_devices_are_told_before_any_work(folder: Path) -> None:
    """A device that nobody offers ends the command at once."""
    told = CliRunner().invoke(
        permute_command, [str(folder), "-p", "2:4", "--device", "abacus", "--dry-run"]
    )
    assert told.exit_code != 0
    assert "unknown device 'abacus'" in str(told.exception)


def test_a_streamed_folder_computes_the_same(folder: Path, tmp_path: Path) -> None:
    """`permute` with every group row by row writes a model with the same outputs."""
    out = tmp_path / "out"
    done = CliRunner().invoke(
        permute_command,
        [
            str(folder),
            "-p",
            "2:4",
            "--solver",
            "matching",
            "--group-memory",
            "0",
            "--out",
            str(out),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "outputs unchanged" in done.output
