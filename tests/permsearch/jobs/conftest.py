"""A small sharded checkpoint, and the command that searches it as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import permsearch as ps

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def shared_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `model` is, for tests that leave it as it is."""
    return made(tmp_path_factory.mktemp("model"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a folder of two shards: weights of several sizes, a bias, and one with NaN."""
    (tmp_path / "model").mkdir()
    return made(tmp_path / "model")


def made(folder: Path) -> Path:
    """Write the shards."""
    shards = {
        f"{kind}.{n}.weight": ps.instances.gaussian(48, 32 + 16 * n, seed=n).astype("f4")
        for kind in ("a", "b")
        for n in range(4)
    }
    shards["a.bias"] = np.ones(48, "f4")
    shards["b.broken"] = np.full((8, 8), np.nan, "f4")
    for number, kind in enumerate("ab", 1):
        mine = {name: value for name, value in shards.items() if name.startswith(kind)}
        save_file(mine, folder / f"model-{number}-of-2.safetensors")
    return folder


@pytest.fixture(scope="session")
def start(root: Path) -> Start:
    """Return what starts the command line as a process."""

    def begin(*arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "permsearch", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root), "NUMBA_NUM_THREADS": "1"},
        )

    return begin
