"""Fixtures and settings that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# The first example of a test may compile a kernel, so a deadline per example would misfire. On a
# build machine the examples are the same in every run; elsewhere each run draws new ones.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def sample_file() -> Path:
    """Return the small file of real weights that the examples use."""
    return ROOT / "examples" / "data" / "minilm_layer0.safetensors"


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Return the folder of larger data beside the repository, or skip where it is absent."""
    folder = ROOT.parent / "shared"
    if not (folder / "weights").is_dir():
        pytest.skip(f"needs the folder of larger data, {folder}, which is not part of the project")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20240229)
