"""2 of 4 in bfloat16 on processors that multiply pairs of it; elsewhere the same in float32."""

from __future__ import annotations

import pytest
import torch

import sparsekernels as sk
from sparsekernels.ops import dispatch, reference
from sparsekernels.ops.operands import Picked
from sparsekernels.timing import random_mask


def error(y: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the relative distance."""
    return float((y.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [
        ("2:4", (70, 264)),
        ("2:4", (3, 8)),
        ("2:4", (300, 1024)),
        ("64:2:8", (128, 128)),
        ("32:2:16", (96, 272)),
        ("hinm:32@0.5:2:4", (64, 144)),
    ],
)
def test_pairs(pattern: str, shape: tuple[int, int]) -> None:
    """Rows, columns and tokens that fill no tile, with and without lists: the float64 product."""
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=rng).bfloat16()
    packed = sk.pack(weight, random_mask(pattern, shape, 0), pattern)
    bias = torch.randn(shape[0], generator=rng)
    for tokens in (9, 16, 17, 33, 150, 600):
        x = torch.randn(tokens, shape[1], generator=rng).bfloat16()
        exact = x.double() @ packed.unpack().double().t() + bias.double()
        assert error(sk.linear(x, packed, bias.bfloat16()), exact) < 6e-3


def test_metadata_that_does_not_rise() -> None:
    """Positions in any order, or twice the same, mean what the reference takes them for."""
    rng = torch.Generator().manual_seed(1)
    weight = torch.randn(64, 64, generator=rng).bfloat16()
    packed = sk.pack(weight, random_mask("2:4", (64, 64), 0), "2:4")
    operands = packed.operands
    assert isinstance(operands, Picked)
    meta = torch.randint(256, operands.meta.shape, generator=rng).to(torch.uint8)
    operands = operands._replace(meta=meta)
    x = torch.randn(40, 64, generator=rng).bfloat16()
    y = dispatch.linear(x, packed.values, operands, 64, None)
    exact = reference.linear(x.double(), packed.values.double(), operands, 64, None)
    assert error(y, exact) < 6e-3
