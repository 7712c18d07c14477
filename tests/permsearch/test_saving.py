"""Results of Python searches become bundles that the commands read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import permsearch as ps
from permsearch.cli import cli
from permsearch.io import MaskBundle

WEIGHT = ps.instances.gaussian(16, 32, seed=0).astype(np.float32)
WANDA = np.abs(WEIGHT) * np.linspace(0.5, 2, 32)


def found(pattern: str = "2:4", **options: Any) -> ps.SearchResult:
    """Return a short search of the weight."""
    return ps.search(WEIGHT, pattern, stop=ps.MaxSteps(20), **options)


@pytest.mark.parametrize("pattern", ["2:4", "vector:8@0.25", "hinm:8@0.5:2:4"])
def test_what_is_saved_is_read(tmp_path: Path, pattern: str) -> None:
    """Mask, orders, tiles and numbers come back as the search returned them, own scores or not."""
    result = found(pattern, scores=WANDA)
    saved = ps.save_bundle(tmp_path / "masks", {"fc.weight": (WEIGHT, result)}, scores="wanda")
    again = MaskBundle.load(tmp_path / "masks")
    again.verify()
    assert list(saved) == list(again) == ["fc.weight"]
    entry = again["fc.weight"]
    np.testing.assert_array_equal(entry.mask, result.mask)
    for axis, order in (("rows", result.rows), ("cols", result.cols)):
        stored = getattr(entry, axis)
        searched = axis in result.problem.terms[0].pattern.axes
        np.testing.assert_array_equal(stored if searched else order, order)
        assert searched == (stored is not None)
    assert (entry.tiles is None) == (not result.tiles)
    assert entry.record["retained"] == result.retained
    assert entry.record["scores"] == again.settings["scores"] == "wanda"


def test_the_bundle_of_the_command(tmp_path: Path) -> None:
    """A search saved in Python has the masks and records of the same search by the command."""
    np.savez(tmp_path / "w.npz", fc=WEIGHT)
    options = ["-p", "2:4", "--steps", "20", "--out", str(tmp_path / "cli")]
    done = CliRunner().invoke(cli, ["search", str(tmp_path / "w.npz"), *options])
    assert done.exit_code == 0, done.output
    ps.save_bundle(tmp_path / "own", {"fc": (WEIGHT, found())})
    own, by_command = (MaskBundle.load(tmp_path / name)["fc"] for name in ("own", "cli"))
    np.testing.assert_array_equal(own.mask, by_command.mask)
    times = {"seconds", "cpu_seconds", "solver"}
    assert set(own.record) == set(by_command.record)
    assert all(own.record[k] == by_command.record[k] for k in own.record if k not in times)


def test_reports_and_packing_take_it(tmp_path: Path) -> None:
    """`permsearch report` and `permsearch pack` read what was saved, bfloat16 weights too."""
    weight = torch.from_numpy(WEIGHT).bfloat16()
    save_file({"fc.weight": weight}, tmp_path / "w.safetensors")
    result = ps.search(weight, "2:4", scores=WANDA, stop=ps.MaxSteps(20))
    folder = tmp_path / "masks"
    ps.save_bundle(folder, {"fc.weight": (weight, result)}, scores="wanda")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(cli, ["report", str(folder), "--html", str(page)])
    assert done.exit_code == 0, done.output
    assert "wanda" in page.read_text("utf-8")
    arguments = ["pack", str(folder), str(tmp_path / "w.safetensors")]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path / "packed.safetensors")])
    assert done.exit_code == 0, done.output


def test_nothing_is_lost_or_mixed_up(tmp_path: Path) -> None:
    """A folder in use is kept unless asked; a result of another weight or of several is refused."""
    saved = {"fc": (WEIGHT, found())}
    ps.save_bundle(tmp_path, saved)
    with pytest.raises(ps.FileError, match="overwrite=True"):
        ps.save_bundle(tmp_path, saved)
    assert "other" in ps.save_bundle(tmp_path, {"other": saved["fc"]}, overwrite=True)
    with pytest.raises(ps.ScoresError, match=r"fc: the weight has shape \(8, 32\)"):
        ps.save_bundle(tmp_path / "a", {"fc": (WEIGHT[:8], found())})
    two = ps.Problem({"c": ps.Free(32)}, tuple(ps.Term(WANDA, "2:4", cols="c") for _ in range(2)))
    with pytest.raises(ps.ProblemError, match="2 weights together"):
        ps.save_bundle(tmp_path / "a", {"fc": (WEIGHT, ps.solve(two, "none"))})
    with pytest.raises(ps.ProblemError, match="no results"):
        ps.save_bundle(tmp_path / "a", {})
    assert not (tmp_path / "a").exists()
