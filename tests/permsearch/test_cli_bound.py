"""`permsearch bound`: what it says of limits that are far from what can be reached."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

import permsearch as ps
from permsearch.cli import cli


def run(*arguments: str) -> Result:
    """Run the command line."""
    return CliRunner().invoke(cli, arguments)


def test_a_loose_bound_says_what_the_tight_one_takes(tmp_path: Path) -> None:
    """Where time was too short for the tight kind, the command tells how much it wants."""
    np.save(tmp_path / "w.npy", ps.instances.gaussian(64, 64, seed=0))
    weight = str(tmp_path / "w.npy")
    result = run("bound", weight, "-p", "2:4", "--seconds", "0.001")
    assert "(loose)" in result.stdout
    assert "1 loose, for want of time: for w the tight kind takes about 0 s" in result.stderr
    assert "loose" not in run("bound", weight, "-p", "2:4").output
    searched = run("search", weight, "-p", "2:4", "--steps", "5")
    assert "loose" in searched.stdout
