"""The code on the pages of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from click.testing import CliRunner

import permsearch as ps
from permsearch.cli import cli

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


def code_of(page: str) -> str:
    """Return the Python code of a page, all its blocks in one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def run(page: str) -> dict[str, Any]:
    """Run the code of a page and return its names."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code_of(page), page, "exec"), names)
    return names


def test_bundles_are_read_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library and numpy alone read the same mask and order out of a bundle."""
    monkeypatch.chdir(tmp_path)
    np.savez("w.npz", **{"layer.0.weight": ps.instances.gaussian(7, 12, seed=0)})
    done = CliRunner().invoke(
        cli, ["search", "w.npz", "-p", "2:4", "--steps", "9", "--out", "masks"]
    )
    assert done.exit_code == 0
    names = run("bundles.md")
    np.testing.assert_array_equal(names["mask"], names["entry"].mask)
    np.testing.assert_array_equal(names["cols"], names["entry"].cols)


def test_jobs_in_python_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job on its page leaves a journal, from which the same code takes all parts."""
    monkeypatch.chdir(tmp_path)
    first = run("jobs.md")["parts"]
    assert len(list((tmp_path / "job" / "parts").iterdir())) == len(first) == 3
    again = run("jobs.md")["parts"]
    for name, part in first.items():
        np.testing.assert_array_equal(part.arrays["cols"], again[name].arrays["cols"])
