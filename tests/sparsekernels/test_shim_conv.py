"""Convolutions of the CUDA kernels' source under the shim: every tap is an address, not a copy.

Compared with float64; planted faults of the address function must be found. Nothing here has run
on a GPU.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsekernels as sk
from sparsekernels import build, compiling
from sparsekernels.functional import window_of
from sparsekernels.ops import cuda
from sparsekernels.ops.cuda import Tile
from sparsekernels.ops.windows import in_groups
from sparsekernels.timing import random_mask
from tests.sparsekernels import test_shim as shim
from tests.sparsekernels.test_conv import PATTERNS, generator, masked_conv

KINDS = (torch.float16, torch.bfloat16)
TOLERANCE = {torch.float16: 4e-4, torch.bfloat16: 3e-3}  # rounding of the outputs
# kernel, stride, padding, dilation
WINDOWS = (
    ((1, 1), 1, 0, 1),
    ((3, 3), 1, 1, 1),
    ((3, 2), (2, 1), (0, 2), (1, 3)),
    ((2, 3), (1, 3), (3, 1), (2, 1)),
)


@pytest.fixture(scope="session")
def host() -> Any:
    """Return the kernels under the shim, or skip where there is no compiler."""
    try:
        return compiling.load(build.host_recipe())
    except sk.BuildError as error:
        pytest.skip(f"the shim cannot be built here: {error}")


def check(
    host: Any, packed: sk.PackedWeight, window: tuple[Any, ...], groups: int, batch: int, tile: Tile
) -> None:
    """Compare a convolution with bias with the float64 one."""
    kind, out = packed.values.dtype, packed.shape[0]
    places = window_of(packed.shape, *window)
    operands = in_groups(packed.operands, packed.values, packed.shape, groups)
    assert cuda.refusal(packed.values, operands) == ""
    x = torch.randn(batch, packed.shape[1] * groups, 7, 6, generator=generator(batch)).to(kind)
    bias = torch.randn(out, generator=generator(1))
    y = cuda.conv2d(host, x, packed.values, operands, out, places, bias, tile=tile)
    exact = torch.nn.functional.conv2d(
        x.double(), packed.unpack().double(), bias.double(), *window, groups
    )
    assert y.shape == exact.shape
    assert y.is_contiguous()
    error = float((y.double() - exact).norm() / exact.norm().clamp(min=1e-9))
    assert error < TOLERANCE[kind], error


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ("8:2:8", "hinm:8@1:2:4")])
def test_windows(host: Any, pattern: str, window: tuple[Any, ...]) -> None:
    """Stride, padding, dilation, odd channels, batches that are no eights, single entries."""
    for kind, seed in zip(KINDS, (1, 2), strict=True):
        weight, mask = masked_conv(pattern, 20, 5 + seed, window[0], seed)
        packed = sk.pack(weight.to(kind), mask, pattern)
        check(host, packed, window[1:], 1, 3 + 6 * (seed - 1), Tile(0, seed, seed))


@pytest.mark.parametrize("v", [16, 32, 64, 128])
def test_every_height(host: Any, v: int) -> None:
    """Each instance: Shfl-BW, 2:4 and V:N:M of tiles as high, with more columns than a step."""
    half, brain = KINDS
    for pattern, kind in ((f"vector:{v}@0.5", half), ("2:4", brain), (f"{v}:2:8", half)):
        weight = torch.randn(v, 16, 3, 3, generator=generator(v))
        packed = sk.pack(weight.to(kind), random_mask(pattern, weight.shape, v), pattern)
        check(host, packed, (1, 1, 1), 1, 2, Tile(0, 1, v))


@pytest.mark.parametrize("pattern", ["vector:8@0.5", "tile:8@0.5+0.1", "2:4"])
def test_groups(host: Any, pattern: str) -> None:
    """Convolutions in groups: columns are moved to where each group's channels lie."""
    weight = torch.randn(32, 8, 3, 3, generator=generator()).half()
    packed = sk.pack(weight, random_mask(pattern, weight.shape, 0), pattern)
    check(host, packed, (2, 1, 1), 2, 8, Tile(0, 1, 1))


@pytest.mark.parametrize("batch", [0, 1])
def test_no_image_and_no_column(host: Any, batch: int) -> None:
    """Nothing in, nothing out; a weight that keeps nothing gives the bias."""
    packed = sk.pack(torch.ones(16, 8, 1, 1), torch.zeros(16, 8, 1, 1).bool(), "tile:8@0.25")
    packed = packed.to(torch.float16)
    bias = torch.arange(16.0)
    x = torch.ones(batch, 8, 2, 3).half()
    window = [1, 1, 1, 1, 0, 0, 1, 1]
    y = cuda.conv2d(host, x, packed.values, packed.operands, 16, window, bias)
    assert torch.equal(y, bias.half().reshape(1, 16, 1, 1).expand(batch, 16, 2, 3))


def test_windows_that_do_not_fit_are_refused(host: Any) -> None:
    """The operator checks what would read outside, also where nobody did before."""
    packed = sk.pack(torch.ones(16, 8, 3, 3), None, "vector:8@1").to(torch.float16)
    tail = (16, None, None, 1.0, 0.0, [3, 3, 1, 1, 0, 0, 1, 1])
    what = cuda._Input(torch.ones(8, 2, 3, 8).half(), 72, 8)
    with pytest.raises(RuntimeError, match="larger than the padded input"):
        cuda._launch(host, what, packed.values, packed.operands, tail, Tile(128, 1))


# ---- faults of the address function

FAULTS = {
    "below the image is read": ("source.cuh", " || row >= w.height", ""),
    "left of the image is read": ("source.cuh", "col < 0 || ", ""),
    "the other axis' stride": ("source.cuh", "row * w.stride[0]", "row * w.stride[1]"),
    "no dilation": ("source.cuh", "right * w.dilation[1]", "right"),
    "images mixed up": ("source.cuh", "* w.batch + image", "* w.batch"),
    "a divider rounded down": ("arguments.hpp", " + by - 1) / by", ") / by"),
}


def convolution_is_right(library: Any, seed: int) -> bool:
    """Run one convolution and compare; False where the shim or the result objects."""
    size, stride, padding, dilation = (9, 7), (2, 1), (1, 2), (1, 2)
    weight, mask = masked_conv("vector:8@1", 64, 6, (3, 2), 1)
    packed = sk.pack(weight.half(), mask, "vector:8@1")
    w = packed.operands
    images = 16
    x = torch.randn(6, *size, images, generator=generator(2)).half()
    space = torch.full((3 * x.numel(),), 5.0).half()  # what lies before and behind is not zero
    inside = space[x.numel() : 2 * x.numel()].copy_(x.reshape(-1))
    height, width = 5, 9
    y = torch.full((64, height * width * images), float("nan")).half()
    valptr = torch.nn.functional.pad((w.colptr.diff() * w.rowptr.diff()).cumsum(0), (1, 0))
    result = shim.Result(y.data_ptr(), None, None, None, 64, y.shape[1], 1.0, 0.0)
    window = shim.Window(6, *size, images, width, 2, stride, padding, dilation)
    pointers = (packed.values, w.colptr, w.rowptr, valptr, w.cols, w.rows, inside)
    gather = shim.Gather(*(t.data_ptr() for t in pointers), 0, None, None, None, result, window)
    if library.sk_gather(0, 64, 128, ctypes.byref(gather), len(valptr) - 1, 1, None, seed):
        return False
    exact = torch.nn.functional.conv2d(
        x.permute(3, 0, 1, 2).double(), packed.unpack().double(), None, stride, padding, dilation
    )
    found = y.reshape(64, height, width, images).permute(3, 0, 1, 2).double()
    return float((found - exact).norm() / exact.norm()) < 4e-4


@pytest.mark.parametrize("fault", ["none", *FAULTS])
def test_planted_faults_are_found(host: Any, fault: str, tmp_path: Path) -> None:
    """Each fault of an address shows; the source as it is shows none."""
    del host
    folder = shim.sources(tmp_path)
    if fault != "none":
        shim.plant(folder, *FAULTS[fault])
    library = ctypes.CDLL(str(shim.compiled(folder)))
    assert convolution_is_right(library, 1) == (fault == "none")


@pytest.fixture(scope="session")
def library(host: Any) -> Any:
    """Return the plain C entry points."""
    del host
    recipe = build.host_recipe()
    return ctypes.CDLL(str(compiling._library(recipe, compiling._folder(recipe))))


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 3))
@settings(max_examples=300)
def test_division_by_multiplication(library: Any, by: int, number: int, near: int) -> None:
    """Quotients are exact below 2^31, at multiples and beside them as well."""
    multiple = min(max(number // by * by - 1 + near, 0), 2**31 - 1)
    for value in (number, multiple, 2**31 - 1):
        assert library.sk_quotient(value, by) == value // by
