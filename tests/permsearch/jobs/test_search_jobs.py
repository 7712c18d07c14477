"""`permsearch search` and `compare` by workers and in shares: the bytes of one serial run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from permsearch.cli import cli
from permsearch.io import MaskBundle
from tests.job_works import contents

FAST = ("-p", "2:4", "--solver", "swap", "--steps", "200")
COMPARE = ("-p", "2:4", "--solvers", "none,swap", "--steps", "50")


def run(*arguments: Any) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def search(model: Path, out: Path, *options: Any) -> Result:
    """Search the model's tensors into a folder; one of them is NaN, which ends with status 1."""
    result = run("search", model, *FAST, "--out", out, *options)
    assert result.exit_code in (0, 1), result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def whole(model: Path, tmp_path: Path) -> Path:
    """Return the bundle of a serial run."""
    result = search(model, tmp_path / "whole")
    assert "1 tensor could not be searched: b.broken" in result.stderr
    return tmp_path / "whole"


@pytest.mark.parametrize(
    "options",
    [("--workers", 2), ("--workers", 3, "--engine", "threads"), ("--workers", 2, "--memory", "1K")],
    ids=str,
)
def test_workers_change_no_byte(
    model: Path, whole: Path, tmp_path: Path, options: tuple[Any, ...]
) -> None:
    """Two processes, three threads, or tasks that do not fit side by side: the same bundle."""
    result = search(model, tmp_path / "out", *options, "--json", tmp_path / "rows.json")
    assert contents(tmp_path / "out") == contents(whole)
    assert "1 tensor could not be searched: b.broken" in result.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["tensor"] for row in rows] == list(MaskBundle.load(whole))


def test_times_are_kept_apart(whole: Path) -> None:
    """The manifest holds no time; a bundle's records do, unless the file of times is lost."""
    manifest = json.loads((whole / "manifest.json").read_text())
    assert "seconds" not in manifest["tensors"]["a.0.weight"]
    bundle = MaskBundle.load(whole)
    bundle.verify()
    assert bundle["a.0.weight"].record["cpu_seconds"] >= 0
    (whole / "times.json").write_text("[")
    bundle = MaskBundle.load(whole)
    bundle.verify()
    assert "cpu_seconds" not in bundle["a.0.weight"].record


def test_a_finished_bundle_is_shown_without_its_times(model: Path, whole: Path) -> None:
    """The same command shows a finished bundle, also where times.json is lost."""
    (whole / "times.json").unlink()
    result = search(model, whole)
    assert "8 of 9 tensors are finished" in result.stderr
    assert "a.3.weight" in result.stdout


def test_shares_merge_to_the_same_bytes(model: Path, whole: Path, tmp_path: Path) -> None:
    """Three shares in one folder, merged, are the serial run's bundle; its failures are told."""
    out = tmp_path / "out"
    for index in (2, 1, 3):
        missing = run("merge", out) if out.exists() else None
        assert missing is None or missing.exit_code == 1
        search(model, out, "--shard", f"{index}/3")
        assert not (out / "masks.safetensors").exists()
    merged = run("merge", out)
    assert merged.exit_code == 1
    assert "wrote 8 masks" in merged.stderr
    assert "could not be searched: b.broken" in merged.stderr
    assert contents(out) == contents(whole)
    assert not (out / "parts").exists()
    search(model, out, "--shard", "2/3")
    assert contents(out) == contents(whole)
    assert "whole bundle already" in run("merge", out).stderr


def test_missing_shares_are_named(model: Path, tmp_path: Path) -> None:
    """Merging tells which shares have not ended, as an array's argument, and changes nothing."""
    search(model, tmp_path / "out", "--shard", "2/4")
    result = run("merge", tmp_path / "out")
    assert result.exit_code == 1
    assert "3 of 4 shares have not ended: 1,3,4; give their commands again" in result.stderr
    search(model, tmp_path / "out", "--shard", "1/2")
    assert "shares of 2 and of 4 lie together" in run("merge", tmp_path / "out").stderr


def test_shares_of_machines_without_common_storage(
    model: Path, whole: Path, tmp_path: Path
) -> None:
    """Shares in folders of their own merge into any of them; those of another run are refused."""
    for index in (1, 2):
        search(model, tmp_path / f"m{index}", "--shard", f"{index}/2")
    run("search", model, *FAST, "--seed", 9, "--out", tmp_path / "other", "--shard", "2/2")
    refused = run("merge", tmp_path / "m1", tmp_path / "other")
    assert "seed 9 (now 0)" in refused.stderr
    assert "wrote 8" in run("merge", tmp_path / "m1", tmp_path / "m2").stderr
    assert contents(tmp_path / "m1") == contents(whole)


def test_a_lost_part_is_noticed_before_merging(model: Path, whole: Path, tmp_path: Path) -> None:
    """A part that was finished and is gone is told; without --shard the rest is searched."""
    search(model, tmp_path / "out", "--shard", "1/1")
    next((tmp_path / "out" / "parts").glob("*.safetensors")).unlink()
    result = run("merge", tmp_path / "out")
    assert "was finished and is missing or damaged, 1 in all" in result.stderr
    search(model, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(whole)


def test_more_shares_than_tensors(model: Path, tmp_path: Path) -> None:
    """Empty shares end well, and the others make the whole."""
    out, told = tmp_path / "out", []
    for index in range(1, 7):
        result = search(model, out, "-t", "a.?.weight", "--shard", f"{index}/6")
        assert result.exit_code == 0, result.output
        told.append(result.stderr)
    assert [" 0 tensors" in text for text in told] == [False] * 4 + [True] * 2
    assert run("merge", out).exit_code == 0
    assert len(MaskBundle.load(out)) == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--shard", "1/2"), "--shard needs --out"),
        (("--shard", "0/2", "--out", "x"), "count from 1 to 2"),
        (("--address", "auto"), "--address needs --engine ray"),
        (("--engine", "ray", "--memory", "2G"), "--memory is what"),
        (("--memory", "much"), "give for example 6G"),
        (("--memory", "0"), "give for example 6G"),
        (("--shard", "1/2", "--out", "x", "--overwrite"), "without --overwrite"),
    ],
)
def test_options_that_do_not_fit(model: Path, options: tuple[str, ...], words: str) -> None:
    """Contradictions are wrong usage, told before anything is read."""
    result = run("search", model, *FAST, *options)
    assert result.exit_code == 2
    assert words in result.stderr


def without_times(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON file, what clocks told left out."""
    rows = json.loads(path.read_text())["rows"]
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in rows]


def test_comparisons_by_workers_and_shares(model: Path, tmp_path: Path) -> None:
    """`compare` tells the same numbers by workers, from a job folder, and from its shares."""
    files = [tmp_path / f"{n}.json" for n in range(4)]
    job = ("--job", tmp_path / "job")
    run("compare", model, *COMPARE, "--json", files[0])
    run("compare", model, *COMPARE, "--json", files[1], "--workers", 2)
    for index in (1, 2):
        run("compare", model, *COMPARE, *job, "--shard", f"{index}/2")
    told = run("merge", tmp_path / "job").stderr
    assert "2 shares are finished" in told
    assert "`permsearch compare` without --shard" in told
    run("compare", model, *COMPARE, *job, "--json", files[2])
    run("compare", model, *COMPARE, *job, "--json", files[3])
    first = without_times(files[0])
    assert len(first) == 16
    for file in files[1:]:
        assert without_times(file) == first
    refused = run("compare", model, *COMPARE, "--seed", 3, *job)
    assert "seed 0 (now 3)" in refused.stderr
    assert json.loads(files[2].read_text())["rows"] == json.loads(files[3].read_text())["rows"]


def test_a_comparison_of_changed_weights_is_refused(model: Path, tmp_path: Path) -> None:
    """Kept rows are not mixed with those of other weights."""
    job = ("--job", tmp_path / "job")
    run("compare", model, *COMPARE, *job)
    first = min(model.iterdir())
    changed = bytearray(first.read_bytes())
    changed[len(changed) // 2] ^= 1
    first.write_bytes(bytes(changed))
    assert "was searched with other values" in run("compare", model, *COMPARE, *job).stderr


def test_merging_needs_something_to_merge(tmp_path: Path) -> None:
    """A folder that is neither bundle nor job is told as that."""
    assert "neither a mask bundle nor a job folder" in run("merge", tmp_path).stderr
