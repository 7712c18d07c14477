"""Every block of Python on the pages and in the README runs, in its page's order.

A page runs in a folder of its own that holds the small file of real weights. What a page takes for
granted (`weight`, `model`) is made by its entry in `SETUPS`; a page without one stands alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

import permsearch as ps
from tests.test_docs import DOCS

ROOT = DOCS.parent
SAMPLE = ROOT / "examples" / "data" / "minilm_layer0.safetensors"
# Pages whose blocks another file runs, since they need more than a setup.
ELSEWHERE = {
    "bundles.md": "tests/test_docs.py",
    "pruning.md": "tests/pruning/test_pruning_page.py",
    "kernels.md": "tests/sparsekernels/test_docs.py",
}
Names = dict[str, Any]


def blocks_of(page: Path) -> list[str]:
    """Return the blocks of Python on a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def pages() -> dict[str, Path]:
    """Return the pages that have blocks of Python, by the names they have among the docs."""
    found = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
    found["README"] = ROOT / "README.md"
    return {
        name: page
        for name, page in found.items()
        if not name.startswith("_build") and blocks_of(page)
    }


def _weight(names: Names) -> None:
    names["weight"] = ps.instances.gaussian(24, 32, seed=0)


def _files(names: Names) -> None:
    _weight(names)
    save_file({"a.weight": names["weight"].astype(np.float32)}, "model.safetensors")


def _network(names: Names) -> None:
    torch.manual_seed(0)
    names["model"] = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    names["example_input"] = torch.randn(3, 8)


def _layers(names: Names) -> None:
    names["weights"] = {
        f"layer{n}": ps.instances.gaussian(64, 64, seed=n).astype(np.float32) for n in range(4)
    }


SETUPS: dict[str, Callable[[Names], None]] = {
    "README": _files,
    "index.md": _weight,
    "networks.md": _network,
    "allocation.md": _layers,
    "bounds.md": _weight,
}


def _proof_by_hand(names: Names) -> None:
    """Check that the stranger's sum is the stated bound, up to its room for rounding."""
    limit = names["limit"]
    assert limit.kind == "partition"
    assert names["total"] * names["unit"] == pytest.approx(limit.value, abs=2 * limit.slack)


def _the_picture(names: Names) -> None:
    """Check that the matrix of the drawing wins what the page says."""
    result = names["result"]
    assert (result.baseline, result.score, str(result.status)) == (89, 104, "optimal")
    assert result.cols.tolist() == [0, 2, 3, 4, 1, 5, 6, 7]


AFTER: dict[str, Callable[[Names], None]] = {
    "bounds.md": _proof_by_hand,
    "concepts.md": _the_picture,
}
# Limits in seconds, and one matrix for a stopwatch, are cut down: the code is tested, not its time.
CUTS = ((r"\bps\.MaxSeconds\(\d+\)", "ps.MaxSteps(40)"), (r"\(4096, 4096,", "(256, 256,"))


def code_of(block: str) -> str:
    """Return a block as it is run here."""
    for pattern, instead in CUTS:
        block = re.sub(pattern, instead, block)
    return block


# Trainers warn about machines without GPUs and about data loaders without workers.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in pages() if name not in ELSEWHERE])
def test_the_code_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page run, one after another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copy(SAMPLE, tmp_path)
    from pruning.rules import RULES

    monkeypatch.setattr("pruning.interpret.RULES", known := dict(RULES))
    monkeypatch.setattr("pruning.rules.RULES", known)
    names: Names = {"__name__": "__main__"}
    SETUPS.get(name, lambda _: None)(names)
    for number, block in enumerate(blocks_of(pages()[name]), 1):
        exec(compile(code_of(block), f"{name}, block {number}", "exec"), names)
    AFTER.get(name, lambda _: None)(names)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_other_pages_are_run_where_it_says(name: str) -> None:
    """The file that is said to run a page knows it."""
    assert name in (ROOT / ELSEWHERE[name]).read_text(encoding="utf-8")
