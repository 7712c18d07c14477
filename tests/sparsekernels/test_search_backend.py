"""The torch backend of the search: the integers of the processor's kernel, by the code of a GPU."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from permsearch.instances import gaussian
from permsearch.kernels.sad import padded_bytes
from permsearch.patterns import NM
from permsearch.streaming.device import GROUP, Processor
from permsearch.streaming.rows import ArrayRows
from permsearch.streaming.stream import StreamOptions, search_rows
from sparsekernels import search_backend
from sparsekernels.errors import BuildError
from sparsekernels.search_backend import TorchDevice, cuda, processor

ROOT = Path(__file__).resolve().parents[2]


@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    width=st.integers(1, 200),
    first=st.integers(0, 39),
    cuts=st.tuples(st.integers(1, 50), st.integers(1, 300)),
)
@settings(max_examples=30, deadline=None)
def test_distances_are_the_same_integers(
    rows: int, columns: int, width: int, first: int, cuts: tuple[int, int]
) -> None:
    """Any shape, from any column on, cut anywhere: what the processor's own kernel says."""
    rng = np.random.default_rng([rows, columns, width])
    left, block = padded_bytes(rows, width), padded_bytes(columns, width)
    left[:, :width] = rng.integers(0, 256, (rows, width))
    block[:, :width] = rng.integers(0, 256, (columns, width))
    first = min(first, columns - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_backend, "_ROWS", cuts[0])
        patch.setattr(search_backend, "_EXACT", cuts[1])
        found = processor().hold(block).distances(left, first)
    expected = Processor().hold(block).distances(left, first)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


def test_the_largest_sums_are_exact() -> None:
    """Rows of 65536 bytes as far apart as can be, plus one: float32 has no room for an error."""
    left, block = padded_bytes(1, 1 << 16), padded_bytes(1, 1 << 16)
    block[:] = 255
    block[0, 0] = 254
    assert processor().hold(block).distances(left)[0, 0] == 255 * (1 << 16) - 1


def test_the_search_finds_the_same_order() -> None:
    """Every decision rests on exact integers, so the device changes nothing."""
    rows = np.abs(gaussian(80, 32, seed=0))
    here = search_rows(ArrayRows([rows]), NM(2, 4))
    there = search_rows(ArrayRows([rows]), NM(2, 4), StreamOptions(device=processor()))
    assert np.array_equal(here.order, there.order)
    assert here.score == there.score


def test_the_entry_points_are_there() -> None:
    """What the project registers can be loaded and makes devices."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    offered = project["entry-points"][GROUP]
    assert set(offered) == {"cuda", "torch"}
    for text in offered.values():
        module, _, name = text.partition(":")
        assert callable(getattr(import_module(module), name))
    assert processor().name == "torch:cpu"


def test_what_is_not_there_is_told() -> None:
    """A text that names no device says what would."""
    with pytest.raises(BuildError, match="torch for the processor"):
        processor("1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_no_gpu_is_told() -> None:
    """Without a GPU the error names what runs anywhere."""
    with pytest.raises(BuildError, match="no CUDA GPU"):
        cuda()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_a_gpu_returns_the_same_integers() -> None:
    """Distances of large blocks on a GPU are those of the processor's kernel."""
    rng = np.random.default_rng(0)
    block = padded_bytes(512, 4096)
    block[:] = rng.integers(0, 256, block.shape)
    device: TorchDevice = cuda()
    assert np.array_equal(
        device.hold(block).distances(block[:100], 7),
        Processor().hold(block).distances(block[:100], 7),
    )
    with pytest.raises(BuildError, match="numbered from 0"):
        cuda("99")
