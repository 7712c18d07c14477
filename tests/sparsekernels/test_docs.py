"""The code on the kernels page runs, and its sentence about GPUs is the package's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sparsekernels as sk
from sparsekernels import doctor
from tests import test_docs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a search to a layer and a file, as the page shows it."""
    monkeypatch.chdir(tmp_path)
    names = test_docs.run("kernels.md")
    assert names["y"].shape == (10, 64)
    assert set(sk.load_packed("packed.safetensors")) == {"layer"}


def test_no_page_claims_a_gpu_run_that_never_was() -> None:
    """As long as no run is recorded, the page says that there was none."""
    text = (test_docs.DOCS / "kernels.md").read_text(encoding="utf-8")
    claimed = "No CUDA kernel of this package has run on a GPU yet" in text
    assert claimed == (doctor.GPU_RUNS == ())
