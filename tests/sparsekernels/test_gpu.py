"""The CUDA kernels on a GPU: the shim's cases again, and PyTorch's own 2:4 kernels as witnesses.

Not one of these has run yet; `permsearch doctor` says when that changes.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import sparsekernels as sk
from sparsekernels import build
from sparsekernels.functional import window_of
from sparsekernels.ops import cuda, semi
from sparsekernels.ops.cuda import Tile
from sparsekernels.timing import random_mask
from tests.sparsekernels import drawn

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]
KINDS = (torch.float16, torch.bfloat16)
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}  # tensor cores add in another order


@pytest.fixture(scope="session")
def kernels() -> Any:
    """Return the compiled operators; a build that fails is a failure here."""
    return build.load_cuda()


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


def check(kernels: Any, case: drawn.Masked, kind: torch.dtype, count: int, tile: Tile) -> None:
    """Compare a product on the GPU with the float64 one."""
    packed = case.pack().to("cuda", kind)
    out, columns = packed.shape
    xt = torch.randn(columns, count, generator=generator(count)).to("cuda", kind)
    bias = torch.randn(out, generator=generator(1)).cuda()
    poison = torch.full((1 << 22,), float("nan"), device="cuda")  # so that stale memory shows
    del poison
    y = cuda.product(kernels, xt, packed.values, packed.operands, out, bias, tile=tile)
    exact = packed.unpack().double() @ xt.double() + bias[:, None]
    error = float((y.double() - exact).norm() / exact.norm().clamp(min=1e-9))
    assert error < TOLERANCE[kind], error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [128, 256])
@pytest.mark.parametrize("v", [16, 32, 64, 128])
def test_gather(kernels: Any, v: int, tokens: int, kind: torch.dtype) -> None:
    """Every height, ragged sizes, split and whole."""
    if tokens == 256 and v == 16:
        pytest.skip("there is no such instance: groups of 16 rows take tiles of 128 tokens")
    for splits in (1, 3):
        case = drawn.vector(4 * v - 3, 900, v, 333, generator(v))
        check(kernels, case, kind, 1000, Tile(tokens, splits))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("v", [16, 32, 64, 128])
def test_picked(kernels: Any, v: int, kind: torch.dtype) -> None:
    """2:4, V:N:M and HiNM of every height."""
    check(kernels, drawn.vnm(3 * v, 60, v, 8, generator(1)), kind, 500, Tile(128, 1))
    check(kernels, drawn.hinm(2 * v, 100, v, 51, generator(2)), kind, 64, Tile(128, 2))
    check(kernels, drawn.nm(2 * v, 128, 2, 4, generator(3), full=True), kind, 77, Tile(128, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_with_overlay(kernels: Any, kind: torch.dtype) -> None:
    """Tile-wise with dropped rows and single entries."""
    check(kernels, drawn.tile(500, 700, 128, 0.02, generator(1)), kind, 300, Tile(128, 2))


def test_layers(kernels: Any) -> None:
    """A layer moved to the GPU computes there, forward and backward."""
    del kernels
    layer = sk.SparseLinear(drawn.vector(128, 96, 32, 24, generator()).pack()).half().cuda()
    x = torch.randn(50, 96, generator=generator()).half().cuda().requires_grad_()
    y = layer(x)
    exact = torch.nn.functional.linear(x, layer.packed.unpack())
    torch.testing.assert_close(y, exact, rtol=1e-2, atol=1e-2)
    y.sum().backward()
    assert x.grad is not None
    assert layer.values.grad is not None


@pytest.mark.parametrize("kind", ["cutlass", "cusparselt"])
def test_pytorchs_kernels_agree_on_two_of_four(kernels: Any, kind: str) -> None:
    """PyTorch's semi-structured products take our values and metadata and give our result."""
    if not (semi.has_cutlass() if kind == "cutlass" else semi.has_cusparselt()):
        pytest.skip(f"this torch has no {kind}")
    case = drawn.nm(128, 64, 2, 4, generator(4), full=True)
    packed = sk.pack(case.dense[:, case.cols].half(), None, "2:4").to("cuda")
    x = torch.randn(61, 256, generator=generator(5)).half().cuda()
    theirs = semi.linear(kind, x, packed.values, packed.operands, None)
    ours = cuda.product(kernels, x.t(), packed.values, packed.operands, 128).t()
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("pattern", ["vector:32@0.5", "tile:64@0.5+0.01", "2:4", "32:2:8"])
@pytest.mark.parametrize("kind", KINDS)
def test_convolutions(kernels: Any, pattern: str, kind: torch.dtype) -> None:
    """Stride, padding, dilation, groups, and a batch that is no eights."""
    weight = torch.randn(96, 32, 3, 3, generator=generator(1)).to(kind)
    packed = sk.pack(weight, random_mask(pattern, weight.shape, 0), pattern).to("cuda")
    x = torch.randn(5, 32, 17, 23, generator=generator(2)).to("cuda", kind)
    window = ((2, 1), (1, 2), (1, 3))
    places = window_of(packed.shape, *window)
    y = cuda.conv2d(kernels, x, packed.values, packed.operands, 96, places, None)
    exact = torch.nn.functional.conv2d(x.double(), packed.unpack().double(), None, *window)
    assert float((y.double() - exact).norm() / exact.norm()) < TOLERANCE[kind]


def test_alpha_and_beta(kernels: Any) -> None:
    """Both are applied to 32-bit sums, and beta 0 does not read what it would scale."""
    del kernels
    packed = drawn.vector(128, 96, 32, 24, generator()).pack().to("cuda", torch.float16)
    x, c = (torch.randn(50, n, generator=generator(n)).half().cuda() for n in (96, 128))
    exact = 0.5 * x.double() @ packed.unpack().double().t()
    y = sk.addmm(c, x, packed, alpha=0.5, beta=-2.0)
    torch.testing.assert_close(y.double(), exact - 2 * c.double(), rtol=1e-2, atol=1e-2)
    y = sk.addmm(torch.full_like(c, float("nan")), x, packed, alpha=0.5, beta=0.0)
    torch.testing.assert_close(y.double(), exact, rtol=1e-2, atol=1e-2)
