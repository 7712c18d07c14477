"""`permute` and `prune` as jobs: workers, shares, kills, and the folder of one serial run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from safetensors.torch import save_file

import pruning.cli
import pruning.prune_cli
from permsearch.cli import cli
from pruning.job_cli import GroupJob
from tests.pruning import test_group_tasks as llama

PERMUTE = ("permute", "-p", "2:4", "--solver", "swap")
PRUNE = ("prune", "-r", "2:4")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small LLaMA in two shards."""
    folder, own = tmp_path_factory.mktemp("llama") / "model", llama.tensors()
    folder.mkdir()
    (folder / "config.json").write_text(llama.json.dumps(llama.CONFIG))
    names = list(own)
    for index, part in enumerate((names[:8], names[8:])):
        save_file({name: own[name] for name in part}, folder / f"model-{index}.safetensors")
    return folder


def run(command: tuple[str, ...], model: Path, out: Path, *options: Any) -> Result:
    """Run a command in this process."""
    arguments = [command[0], model, *command[1:], "--out", out, *options]
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert "Traceback" not in result.output
    return result


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def calm(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a serial `permute` writes; its journal lies beside, in job."""
    out = tmp_path_factory.mktemp("calm") / "out"
    assert run(PERMUTE, model, out, "--job", out.with_name("job")).exit_code == 0
    return out


def test_workers_change_no_byte(calm: Path, model: Path, tmp_path: Path) -> None:
    """Two processes write the folder of one; the job folder goes when it is whole."""
    result = run(PERMUTE, model, tmp_path / "out", "--workers", 2)
    assert result.exit_code == 0, result.output
    assert files(tmp_path / "out") == files(calm)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_shares_change_no_byte(model: Path, tmp_path: Path) -> None:
    """Shares search, each in its turn, and the command without --shard writes the folder."""
    out = tmp_path / "out"
    for index in (2, 1):
        result = run(PRUNE, model, out, "--shard", f"{index}/2")
        assert result.exit_code == 0, result.output
        assert f"share {index}/2 is finished" in result.stderr
        assert not out.exists()
    merged = CliRunner().invoke(cli, ["merge", str(tmp_path / "out.job")])
    assert f"2 shares are finished in {tmp_path / 'out.job'}" in merged.stderr
    result = run(PRUNE, model, out)
    assert "searches are finished in" in result.stderr
    assert run(PRUNE, model, tmp_path / "serial").exit_code == 0
    assert files(out) == files(tmp_path / "serial")


def test_a_job_folder_of_its_own_stays(calm: Path, model: Path, tmp_path: Path) -> None:
    """With --job the journal is kept: another output takes all from it, other settings none."""
    job = ("--job", calm.with_name("job"))
    again = run(PERMUTE, model, tmp_path / "second", *job)
    assert "searches are finished in" in again.stderr
    assert files(tmp_path / "second") == files(calm)
    other = run(PERMUTE, model, tmp_path / "third", *job, "--seed", 5)
    assert other.exit_code == 1
    assert "a job made with seed 0 (now 5)" in other.stderr
    wrong = run(PRUNE, model, tmp_path / "third", *job)
    assert "holds a job of `permsearch permute`" in wrong.stderr


def test_a_killed_permutation_goes_on(calm: Path, model: Path, tmp_path: Path, root: Path) -> None:
    """Killed in between, also with a half-written folder beside, the command goes on to the end."""
    out, job = tmp_path / "out", tmp_path / "out.job"
    command = ["permute", str(model), *PERMUTE[1:], "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "permsearch", *command],
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not list(job.glob("parts/*.safetensors")):
        time.sleep(0.005)
    process.kill()
    process.wait()
    half = tmp_path / ".out.1.tmp"
    half.mkdir()
    if not out.exists():
        result = run(PERMUTE, model, out)
        assert result.exit_code == 0, result.output
        assert "searches are finished in" in result.stderr
    assert files(out) == files(calm)
    assert not half.exists()


@pytest.mark.parametrize("command", [PERMUTE, PRUNE], ids=lambda command: command[0])
@pytest.mark.parametrize("place", ["write_reports", "end"])
def test_killed_before_its_reports(
    command: tuple[str, ...],
    place: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command that dies once its folder stands writes its reports when it is given again."""
    out, job = tmp_path / "out", tmp_path / "out.job"
    reports = [tmp_path / name for name in ("r.json", "r.html")]
    options = ("--json", reports[0], "--html", reports[1])
    with monkeypatch.context() as patched:
        module = {"permute": pruning.cli, "prune": pruning.prune_cli}[command[0]]
        patched.setattr(module if place == "write_reports" else GroupJob, place, dies)
        run(command, model, out, *options)
    assert out.exists()
    assert job.exists()
    told = [path.read_bytes() for path in reports if path.exists()]
    again = run(command, model, out, *options)
    assert again.exit_code == 0, again.output
    assert "was finished by an earlier run" in again.stderr
    assert not job.exists()
    written = [path.read_bytes() for path in reports]
    assert not told or told == written
    assert json.loads(written[0])["total"]["retained"] > 0


def test_only_its_own_folder_is_taken_for_finished(calm: Path, model: Path, tmp_path: Path) -> None:
    """A folder that was altered, or that other settings made, is refused as ever."""
    job, out = tmp_path / "job", tmp_path / "out"
    assert run(PERMUTE, model, out, "--job", job).exit_code == 0
    assert "was finished" in run(PERMUTE, model, out, "--job", job).stderr
    assert "seed 0 (now 5)" in run(PERMUTE, model, out, "--job", job, "--seed", 5).stderr
    shard = next(out.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-4] + b"else")
    refused = run(PERMUTE, model, out, "--job", job)
    assert refused.exit_code == 1
    assert "exists and is not an empty folder" in refused.stderr
    assert "is not an empty folder" in run(PERMUTE, model, calm).stderr


def dies(*_: Any, **__: Any) -> None:
    """Stand for a kill."""
    raise KeyboardInterrupt
