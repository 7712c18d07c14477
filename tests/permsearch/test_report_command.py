"""`permsearch report`: a page of whatever a command left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from permsearch.cli.app import cli
from permsearch.cli.report import report_command
from permsearch.errors import FileError


def run(*args: object) -> Any:
    """Run a command of `permsearch`."""
    return CliRunner().invoke(cli, [str(arg) for arg in args])


@pytest.fixture
def weight(tmp_path: Path) -> Path:
    """Return a file with a weight."""
    path = tmp_path / "weight.npy"
    np.save(path, np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32))
    return path


def test_a_bundle_becomes_a_page(weight: Path, tmp_path: Path) -> None:
    """The page tells what the bundle's weight keeps, needs nothing else, and has the title."""
    done = run("search", weight, "-p", "2:4", "--steps", 20, "--out", tmp_path / "masks")
    assert done.exit_code == 0, done.output
    page = tmp_path / "page.html"
    done = run("report", tmp_path / "masks", "--html", page, "--title", "Mine & yours")
    assert done.exit_code == 0, done.output
    assert done.output == f"wrote {page}\n"
    text = page.read_text("utf-8")
    manifest = json.loads((tmp_path / "masks" / "manifest.json").read_text("utf-8"))
    [record] = manifest["tensors"].values()
    assert f"{record['retained']:.4f}" in text
    assert f"{record['baseline']:.4f}" in text
    assert "<title>Mine &amp; yours</title>" in text
    assert "http" not in text.split("<body>")[1].replace("http-equiv", "")
    assert "sortable" in text


@pytest.mark.parametrize("command", ["search", "compare"])
def test_json_becomes_a_page(weight: Path, tmp_path: Path, command: str) -> None:
    """What --json wrote makes the page later; on the standard output it stands alone."""
    told = tmp_path / "told.json"
    done = run(command, weight, "-p", "2:4", "--steps", 20, "--json", told)
    assert done.exit_code == 0, done.output
    done = run("report", told, "--html", "-")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("<!DOCTYPE html>")
    assert done.output.rstrip().endswith("</html>")


def test_what_is_no_report_is_refused(weight: Path, tmp_path: Path) -> None:
    """Other files and folders are named with what they hold, and no page appears."""
    other, words = tmp_path / "other.json", tmp_path / "words.json"
    other.write_text('{"a": 1}', "utf-8")
    words.write_text("[1]", "utf-8")
    page = tmp_path / "page.html"
    for path, told in ((other, "'a'"), (words, "a list"), (weight, "JSON"), (tmp_path, "manifest")):
        done = CliRunner().invoke(report_command, [str(path), "--html", str(page)])
        assert isinstance(done.exception, FileError)
        assert told in str(done.exception)
    assert not page.exists()
    assert run("report", other).exit_code == 2
