"""Which V the published kernels take is a note."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from click.testing import CliRunner

import permsearch as ps
from permsearch.cli import cli


def test_a_v_without_a_kernel_is_a_note(tmp_path: Path) -> None:
    """Masks may have any V: what no published kernel takes is told, and searched."""
    file = tmp_path / "w.npy"
    np.save(file, ps.instances.gaussian(24, 16, seed=0))
    result = CliRunner().invoke(cli, ["search", str(file), "-p", "vector:12@0.25", "--steps", "5"])
    assert result.exit_code == 0
    assert "note: published kernels of vector:12@0.25 take V = 16, 32" in result.stderr
    other = CliRunner().invoke(cli, ["search", str(file), "-p", "2:4", "--steps", "5"])
    assert "note" not in other.stderr
    found = ps.search(np.load(file), "vector:12@0.25", stop=ps.MaxSteps(5))
    assert "16, 32, 64 or 128" in found.details["note"]
