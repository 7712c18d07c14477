"""Eligibility as told beforehand, against what the targets say to weights that are pruned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from permsearch.errors import UnknownName
from permsearch.patterns import NM, parse_pattern
from pruning.exports.semi_structured import obstacle
from pruning.targets import TARGETS, Candidate, at_most, eligibility, told


def masked(pattern: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return a weight under the best mask of a pattern."""
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 3
    mask = parse_pattern(pattern).keep(weight.abs().numpy())
    return torch.where(torch.from_numpy(mask), weight, 0.0).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(64, 64), (64, 48), (96, 40), (64, 64, 1, 1)])
@pytest.mark.parametrize("pattern", ["2:4", "1:4", "1:2", "4:8", "32:2:8"])
def test_semi_structured_as_the_encoder_has_it(
    pattern: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """What is promised is taken, and what is refused holds groups that are too full."""
    [reason] = eligibility(
        Candidate(shape, dtype, 1, parse_pattern(pattern)), ["torch-semi-structured"]
    ).values()
    weight = masked(pattern, shape, dtype)
    assert bool(reason) == bool(obstacle(weight))


@pytest.mark.parametrize(
    "pattern",
    [
        *("2:4", "4:8", "1:32", "64:2:8", "8:2:12", "hinm:8@0.5:2:4", "vector:8@0.5", "tile:8@0.5"),
        *("block:8x8@0.5", "transposable:2:4", "unstructured@0.5", "unaligned:4@0.5"),
    ],
)
def test_sparsekernels_as_packing_has_it(pattern: str) -> None:
    """A weight is told to be packed exactly if packing takes it."""
    sparsekernels = pytest.importorskip("sparsekernels")
    from sparsekernels.errors import PackError

    own = parse_pattern(pattern)
    weight = np.abs(np.random.default_rng(0).normal(size=(64, 96))).astype(np.float32)
    tiles = own.tile_orders(weight) if hasattr(own, "tile_orders") else None
    mask = own.keep(weight)
    reason = TARGETS["sparsekernels"](Candidate((64, 96), torch.float32, 1, own))
    try:
        sparsekernels.pack(torch.from_numpy(weight), torch.from_numpy(mask), pattern, tiles=tiles)
        taken = True
    except PackError:
        taken = False
    assert taken == (not reason), reason


@pytest.mark.parametrize("pattern", ["1:2", "2:4", "1:4", "2:8", "3:8", "8:2:8", "2:6", "4:16"])
def test_groups_that_are_never_too_full(pattern: str) -> None:
    """A pattern counts as 2:4 exactly if no mask of it has 3 of 4 consecutive entries."""
    own = parse_pattern(pattern)
    m = getattr(own, "m", 4)
    width, worst = m * 4, 0
    for start in range(width - 1):  # put the large entries side by side, wherever they stand
        scores = np.full((8, width), 0.1, dtype=np.float32)
        scores[:, start : start + 3] = 1.0
        full = own.keep(scores).reshape(8, -1, 4).sum(-1).max()
        worst = max(worst, int(full))
    assert at_most(own, 2, 4) == (worst <= 2)


def test_tensorrt_and_layouts() -> None:
    """Channels by four, inputs along dimension 1; weights of GPT-2 lie the other way."""
    half = NM(2, 4)
    names = list(TARGETS)
    assert set(eligibility(Candidate((64, 64), torch.float16, 1, half), names).values()) == {""}
    convolution = Candidate((8, 6, 3, 3), torch.float16, 1, NM(1, 2))
    assert "6 input channels" in eligibility(convolution, names)["tensorrt"]
    turned = eligibility(Candidate((64, 64), torch.float16, 0, half), names)
    assert all("along dimension 0" in reason for reason in turned.values())
    assert told(turned)[1].startswith("eligible for tensorrt: no, its inputs lie")
    with pytest.raises(UnknownName, match="tensorrt"):
        eligibility(convolution, ["tensort"])
