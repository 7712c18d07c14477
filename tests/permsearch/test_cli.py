"""The command line inside this process: options, outputs, errors, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

import permsearch as ps
from permsearch.cli import cli, group
from permsearch.io import MaskBundle
from permsearch.rows import COLUMNS
from permsearch.search_all import SearchOptions

FAST = ["-p", "2:4", "--solver", "random", "--steps", "5"]


def run(*arguments: str | Path) -> Result:
    """Run the command line."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return a file of three matrices, one of which has odd columns, and a bias."""
    arrays = {f"layer.{n}.weight": ps.instances.gaussian(8, 64, seed=n) for n in range(2)}
    path = tmp_path / "w.npz"
    np.savez(path, **arrays, odd=np.ones((4, 6)), bias=np.ones(4))
    return path


def test_version_and_help() -> None:
    """--version and --help answer, for every command, with examples."""
    assert run("--version").stdout == f"permsearch {ps.__version__}\n"
    assert "Examples:" in run("--help").stdout
    for command in ("search", "compare", "bound"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"permsearch {command} " in result.stdout
        assert "\b" not in result.stdout


def test_results_and_remarks_are_apart(weights: Path) -> None:
    """Results stand on the standard output, line by line; what is left out on the other one."""
    result = run("search", weights, *FAST)
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    assert head.split()[:3] == ["tensor", "shape", "retained"]
    assert [line.split()[0] for line in lines] == ["layer.0.weight", "layer.1.weight"]
    assert "skipped odd: 6 columns" in result.stderr
    assert "skipped 1 tensor without rows and columns" in result.stderr


def test_json_alone_is_valid_json(weights: Path) -> None:
    """--json without a file puts JSON, and nothing else, on the standard output."""
    for command in (["search", weights, *FAST], ["bound", weights, "-p", "2:4"]):
        result = run(*command, "--json")
        assert result.exit_code == 0
        content = json.loads(result.stdout, parse_constant=pytest.fail)
        assert [set(row) for row in content["rows"]] == [set(COLUMNS)] * 2
        assert {skip["tensor"] for skip in content["skipped"]} == {"odd", "bias"}
        assert content["complete"]


def test_search_writes_a_bundle(weights: Path, tmp_path: Path) -> None:
    """--out writes masks and orders that equal those of the library, and says where."""
    out = tmp_path / "masks"
    result = run("search", weights, *FAST, "--out", out, "--json", tmp_path / "r.json")
    assert result.exit_code == 0
    assert f"wrote 2 masks and orders to {out}" in result.stderr
    bundle = MaskBundle.load(out)
    expected = dict(ps.search_all(str(weights), "2:4", solver="random", stop=ps.MaxSteps(5)))
    assert list(bundle) == list(expected)
    for name, entry in bundle.items():
        np.testing.assert_array_equal(entry.mask, expected[name].mask)
        np.testing.assert_array_equal(entry.cols, expected[name].cols)
        assert entry.record["retained"] == expected[name].retained
        assert entry.record["dtype"] == "float32"
        assert entry.record["axis"] == 1
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["tensor"] for row in rows] == list(bundle)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Make the given search of the process end as Ctrl-C would."""
    real: Callable[..., Any] = SearchOptions.search
    calls = iter(range(1, 1000))

    def search(self: SearchOptions, weight: Any, name: str) -> Any:
        if next(calls) == call:
            raise KeyboardInterrupt
        return real(self, weight, name)

    monkeypatch.setattr(SearchOptions, "search", search)


def test_interrupted_searches_go_on(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C keeps what is finished and says so; the same command finishes the rest only."""
    out = tmp_path / "masks"
    interrupt_at(monkeypatch, 2)
    result = run("search", weights, *FAST, "--out", out)
    assert result.exit_code == 130
    assert f"Interrupted: 1 of 2 tensors are finished and kept in {out}" in result.stderr
    assert "layer.0.weight" in result.stdout
    monkeypatch.undo()
    interrupt_at(monkeypatch, 2)  # the second search of this run would be one too many
    result = run("search", weights, *FAST, "--out", out, "--json")
    assert result.exit_code == 0
    assert "1 of 2 tensors are finished" in result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 2
    assert len(MaskBundle.load(out)) == 2


def test_a_finished_search_is_not_repeated(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command on a finished bundle searches nothing and shows the same table."""
    out = tmp_path / "masks"
    first = run("search", weights, *FAST, "--out", out)
    before = (out / "manifest.json").read_bytes()
    interrupt_at(monkeypatch, 1)
    second = run("search", weights, *FAST, "--out", out)
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    assert (out / "manifest.json").read_bytes() == before


def test_other_settings_and_weights_are_told(weights: Path, tmp_path: Path) -> None:
    """A bundle of other settings or other weights is never mixed; --overwrite starts anew."""
    out = tmp_path / "masks"
    assert run("search", weights, *FAST, "--out", out).exit_code == 0
    result = run("search", weights, *FAST, "--seed", "1", "--out", out)
    assert result.exit_code == 1
    assert "seed 0 (now 1)" in result.stderr
    assert "--overwrite" in result.stderr
    np.savez(weights, **{f"layer.{n}.weight": np.full((8, 64), n + 1.0) for n in range(2)})
    result = run("search", weights, *FAST, "--out", out)
    assert result.exit_code == 1
    assert "'layer.0.weight' was searched with other values" in result.stderr
    assert run("search", weights, *FAST, "--out", out, "--overwrite").exit_code == 0


def test_records_that_make_no_row_are_told(weights: Path, tmp_path: Path) -> None:
    """A record of the manifest that lacks a number is told with the file and the way out."""
    out = tmp_path / "masks"
    assert run("search", weights, *FAST, "--out", out).exit_code == 0
    text = (out / "manifest.json").read_text("utf-8")
    (out / "manifest.json").write_text(text.replace('"retained"', '"lost"'))
    result = run("search", weights, *FAST, "--out", out)
    assert result.exit_code == 1
    assert "manifest.json: damaged, the record of 'layer.0.weight'" in result.stderr
    assert "'retained'" in result.stderr
    assert "--overwrite" in result.stderr


def test_unwritable_output_is_told_before_the_search(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output that cannot be written stops the run before its first search."""
    interrupt_at(monkeypatch, 1)
    (tmp_path / "file").write_bytes(b"")
    result = run("search", weights, *FAST, "--out", tmp_path / "file" / "masks")
    assert (result.exit_code, "cannot be written to" in result.stderr) == (1, True)
    for option in ("--json", "--csv", "--html"):
        result = run("compare", weights, "-p", "2:4", option, tmp_path / "no" / "such" / "file")
        assert (result.exit_code, "does not exist" in result.stderr) == (2, True)
        result = run("compare", weights, "-p", "2:4", option, tmp_path)
        assert (result.exit_code, "is a folder" in result.stderr) == (2, True)


def test_weights_are_never_overwritten(weights: Path) -> None:
    """A slip such as `--json w.npz` does not destroy the weights."""
    before = weights.read_bytes()
    result = run("search", weights, *FAST, "--json", weights)
    assert (result.exit_code, "not overwritten" in result.stderr) == (2, True)
    assert run("search", "--json", weights, *FAST).exit_code == 2
    assert weights.read_bytes() == before


def test_dry_run_lists_and_does_nothing(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--dry-run tells what would be searched, what is finished and what is left out, and why."""
    out = tmp_path / "masks"
    interrupt_at(monkeypatch, 1)
    result = run("search", weights, *FAST, "--out", out, "--dry-run")
    assert result.exit_code == 0
    assert not out.exists()
    assert "layer.0.weight" in result.stdout
    assert "search" in result.stdout.splitlines()[1].split()
    assert "skipped odd" in result.stderr
    assert "skipped bias" not in result.stderr
    assert "without rows and columns (biases, norms)" in result.stderr
    monkeypatch.undo()
    run("search", weights, *FAST, "--out", out, "-t", "layer.0.*")
    result = run("search", weights, *FAST, "--out", out, "--dry-run", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [(row["groups"], row["action"]) for row in rows] == [(16, "finished"), (16, "search")]


def test_compare_writes_everything(weights: Path, tmp_path: Path) -> None:
    """Compare writes JSON, CSV and HTML and shows rows and a summary."""
    files = {option: tmp_path / f"c.{option}" for option in ("json", "csv", "html")}
    options = [part for option, path in files.items() for part in (f"--{option}", path)]
    result = run(
        "compare", weights, "-p", "2:4", "--solvers", "none, random", "--steps", "5", *options
    )
    assert result.exit_code == 0
    content = json.loads(files["json"].read_text())
    assert [row["solver"] for row in content["rows"]] == ["none", "random"] * 2
    assert [row["solver"] for row in content["summary"]] == ["none", "random"]
    assert files["csv"].read_text().splitlines()[0] == ",".join(COLUMNS)
    assert "<!DOCTYPE html>" in files["html"].read_text()
    assert len(result.stdout.splitlines()) == 1 + 4 + 1 + 1 + 2
    result = run("compare", weights, "-p", "2:4", "--solvers", "none", "--csv", "-")
    assert len(result.stdout.splitlines()) == 3


def test_an_interrupted_comparison_writes_what_it_has(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a comparison writes the rows that are finished, marked as incomplete."""
    interrupt_at(monkeypatch, 4)
    result = run(
        "compare",
        weights,
        "-p",
        "2:4",
        "--solvers",
        "none,random",
        "--steps",
        "5",
        "--json",
        tmp_path / "c.json",
    )
    assert result.exit_code == 130
    assert "3 of 4 searches are finished" in result.stderr
    content = json.loads((tmp_path / "c.json").read_text())
    assert len(content["rows"]) == 3
    assert content["about"]["complete"] is False
    assert [row["tensors"] for row in content["summary"]] == [1, 1], "of the tensor all finished"


def test_a_comparison_of_nothing_fails(weights: Path) -> None:
    """A comparison in which no solver takes any tensor is a failure with reasons."""
    result = run("compare", weights, "-p", "2:4", "--solvers", "exhaustive")
    assert result.exit_code == 1
    assert "not searched by exhaustive" in result.stderr
    assert "no solver could take any tensor" in result.stderr


def test_bound_tells_what_no_order_exceeds(weights: Path) -> None:
    """Bound gives a limit above what the searches reach, and its kind."""
    rows = json.loads(run("bound", weights, "-p", "2:4", "--json").stdout)["rows"]
    for row, (_, result) in zip(
        rows, ps.search_all(str(weights), "2:4", solver="random", stop=ps.MaxSteps(50)), strict=True
    ):
        assert result.retained <= row["bound"] <= 1
        assert row["bound_kind"]
        assert row["retained"] == row["baseline"]


USAGE = [
    ([], 2, "Usage"),
    (["search"], 2, "Missing argument"),
    (["serch", "W"], 2, "Did you mean 'search'"),
    (["search", "W"], 2, "--pattern"),
    (["search", "W", "-p", "2:x"], 2, "unknown pattern '2:x'"),
    (["search", "W", "-p", "5:4"], 2, "1 <= N <= M"),
    (["search", "W", "-p", "2:4", "--solver", "swop"], 2, "did you mean 'swap'"),
    (["compare", "W", "-p", "2:4", "--solvers", "none,swop"], 2, "did you mean 'swap'"),
    (["compare", "W", "-p", "2:4", "--solvers", ","], 2, "at least one solver"),
    (["search", "W", "-p", "2:4", "--steps", "3", "--seconds", "1"], 2, "not both"),
    (["search", "W", "-p", "2:4", "--steps", "-3"], 2, "--steps"),
    (["search", "W", "-p", "2:4", "--seconds", "nan"], 2, "--seconds"),
    (["search", "W", "-p", "2:4", "--seed", "-1"], 2, "--seed"),
    (["search", "W", "-p", "2:4", "--overwrite"], 2, "needs --out"),
    (["compare", "W", "-p", "2:4", "--json", "-", "--csv", "-"], 2, "cannot both"),
    (["compare", "W", "-p", "2:4", "--csv", "-", "--html", "-"], 2, "cannot both have the stand"),
    (["compare", "W", "-p", "2:4", "--csv", "./r", "--html", "r"], 2, "--html cannot both have"),
    (["search", "W", "-p", "2:4", "--json", "/dev/null"], 2, "not a regular file"),
    (["search", "missing.npz", "-p", "2:4"], 1, "no such file"),
    (["search", "W", "-p", "2:4", "-t", "layr*"], 1, "did you mean 'layer"),
    (["search", "W", "-p", "1:7"], 1, "no tensor can be searched for 1:7"),
    (["search", "W", "-p", "2:4", "--solver", "exhaustive"], 1, "layer.0.weight"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), USAGE)
def test_misuse_has_its_exit_code(
    weights: Path, arguments: list[str], code: int, message: str
) -> None:
    """Wrong usage ends with 2, a failure with 1, in one line that helps, without a traceback."""
    result = run(*[str(weights) if part == "W" else part for part in arguments])
    assert result.exit_code == code
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    if code == 1:
        assert len([line for line in result.stderr.splitlines() if "Error" in line]) == 1


def test_bad_weights_are_told_by_name(tmp_path: Path) -> None:
    """A NaN in a tensor is told with the tensor and the index; --debug lets the error through."""
    weight = np.ones((4, 8))
    weight[2, 5] = np.nan
    np.save(tmp_path / "query.npy", weight)
    result = run("search", tmp_path / "query.npy", *FAST)
    assert result.exit_code == 1
    assert "query: the weight holds nan at index (2, 5)" in result.stderr
    result = run("search", tmp_path / "query.npy", *FAST, "--debug")
    assert isinstance(result.exception, ps.ScoresError)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a file in which the first of three matrices holds an infinity."""
    arrays = {f"layer.{n}": ps.instances.gaussian(8, 16, seed=n) for n in range(3)}
    arrays["layer.0"][3, 4] = np.inf
    path = tmp_path / "damaged.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    "command",
    [["search", "--solver", "random"], ["compare", "--solvers", "none,random"], ["bound"]],
)
def test_one_damaged_tensor_does_not_end_a_run(
    damaged: Path, tmp_path: Path, command: list[str]
) -> None:
    """The others are searched and written; the damaged one is told at the end, exit status 1."""
    result = run(*command, damaged, "-p", "2:4", "--json", tmp_path / "r.json")
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: 1 tensor could not be searched: layer.0: the weight holds inf")
    content = json.loads((tmp_path / "r.json").read_text())
    assert {row["tensor"] for row in content["rows"]} == {"layer.1", "layer.2"}
    assert [skip["tensor"] for skip in content["skipped"]] == ["layer.0"]
    result = run(*command, damaged, "-p", "2:4", "--exclude", "*.0", "--exclude", "layer.1")
    assert result.exit_code == 0
    assert "layer.2" in result.stdout
    assert "layer.1" not in result.stdout


def test_a_bundle_lists_the_damaged_tensor(damaged: Path, tmp_path: Path) -> None:
    """What could be searched is a complete bundle, which says what is left out."""
    result = run("search", damaged, *FAST, "--out", tmp_path / "m")
    assert result.exit_code == 1
    bundle = MaskBundle.load(tmp_path / "m")
    assert list(bundle) == ["layer.1", "layer.2"]
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert [skip["tensor"] for skip in manifest["skipped"]] == ["layer.0"]


def test_convolutions_are_shown_in_their_own_shape(tmp_path: Path) -> None:
    """Tables show the shape that is in the file."""
    np.save(tmp_path / "conv.npy", ps.instances.gaussian(4, 72, seed=0).reshape(4, 8, 3, 3))
    for command in (["search", *FAST], ["compare", "-p", "2:4", "--steps", "2"]):
        assert "4x8x3x3" in run(command[0], tmp_path / "conv.npy", *command[1:]).stdout
    assert "4x8x3x3" in run("bound", tmp_path / "conv.npy", "-p", "2:4").stdout
    assert "4x8x3x3" in run("search", tmp_path / "conv.npy", *FAST, "--dry-run").stdout


def test_steps_are_not_compared(weights: Path, tmp_path: Path) -> None:
    """Where steps limit the searches, no gain is set against another solver's."""
    options = ["-p", "2:4", "--solvers", "window,random", "--html", tmp_path / "r.html"]
    result = run("compare", weights, *options, "--steps", "5")
    page = (tmp_path / "r.html").read_text()
    assert "vs window" not in result.stdout
    assert "gain against" not in page
    assert "a step differs from solver to solver" in page
    result = run("compare", weights, *options, "--seconds", "0.02")
    assert "vs window" in result.stdout
    assert "gain against" in (tmp_path / "r.html").read_text()


def test_a_comparison_tells_where_it_is(weights: Path) -> None:
    """Without a terminal every search is a line on the standard error."""
    result = run("compare", weights, "-p", "2:4", "--solvers", "none,random", "--steps", "2")
    assert "2 of 4: layer.0.weight, random" in result.stderr


def test_messages_have_one_full_stop(weights: Path) -> None:
    """Reasons inside sentences bring no full stop of their own; options are called by name."""
    for arguments in (["search", "-p", "1:7"], ["compare", "-p", "2:4", "--solvers", "exhaustive"]):
        stderr = run(arguments[0], weights, *arguments[1:]).stderr
        assert "..;" not in stderr.replace("...", "")
        assert ".;" not in stderr
        assert ".." not in stderr
        assert "pad=True" not in stderr


def test_unforeseen_errors_are_one_line_too(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is one line that names its kind and the way to see more."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(SearchOptions, "search", fail)
    result = run("search", weights, *FAST)
    assert result.exit_code == 1
    assert "Error: ZeroDivisionError: by zero (--debug shows where)" in result.stderr


def test_padding_is_offered_and_done(tmp_path: Path) -> None:
    """Columns that do not divide are told with --pad, and searched with it."""
    np.save(tmp_path / "w.npy", np.arange(24.0).reshape(4, 6))
    result = run("search", tmp_path / "w.npy", *FAST)
    assert (result.exit_code, "pad" in result.stderr) == (1, True)
    result = run("search", tmp_path / "w.npy", *FAST, "--pad", "--out", tmp_path / "m", "--json")
    assert json.loads(result.stdout)["rows"][0]["padding"] == 2
    entry = MaskBundle.load(tmp_path / "m")["w"]
    assert entry.mask.shape == (4, 6)
    assert entry.cols is not None
    assert len(entry.cols) == 8


@click.command("hello")
def hello() -> None:
    """Say hello."""
    click.echo("hello")


def test_other_packages_add_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands come in through the entry-point group; a broken one breaks only itself."""
    points = {
        "hello": EntryPoint("hello", f"{__name__}:hello", group.ENTRY_POINTS),
        "gone": EntryPoint("gone", "no_such_module:command", group.ENTRY_POINTS),
        "search": EntryPoint("search", f"{__name__}:hello", group.ENTRY_POINTS),
    }
    monkeypatch.setattr(group, "_plug_ins", lambda: points)
    result = run("--help")
    assert "Say hello." in result.stdout
    assert "broken" in result.stdout
    assert run("hello").stdout == "hello\n"
    result = run("gone", "--any", "thing")
    assert (result.exit_code, "no_such_module" in result.stderr) == (1, True)
    assert "Search orders of the axes" in run("search", "--help").stdout
