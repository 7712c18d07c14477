"""Convolutions over packed weights against torch's, for every window and format."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsekernels as sk
from sparsekernels.ops.windows import in_groups
from tests.sparsekernels import drawn
from tests.sparsekernels.test_ops import operator

PATTERNS = ("vector:8@1", "tile:8@1+1", "block:8x2@1", "2:4", "8:2:8", "hinm:8@1:2:4")


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


def masked_conv(
    pattern: str, out: int, channels: int, taps: tuple[int, int], seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight and a mask of the pattern, as it stands."""
    rng, flat = generator(seed), taps[0] * taps[1]
    if pattern in ("2:4", "8:2:8", "hinm:8@1:2:4"):
        live = torch.ones(-(-out // 8), flat, channels, dtype=torch.bool)
        if pattern == "8:2:8":
            wide = -(-channels // 8)
            live = drawn.pick((len(live), flat, wide, 8), 4, rng).flatten(2)[:, :, :channels]
        mask = live.repeat_interleave(8, 0)[:out]
        score = torch.rand(mask.shape, generator=rng) * mask
        wide = -(-channels // 4)
        padded = torch.nn.functional.pad(score, (0, 4 * wide - channels))
        kept = padded.reshape(out, flat, wide, 4).argsort(-1).argsort(-1) >= 2
        kept = kept.flatten(2)[:, :, :channels] & mask
        if pattern == "8:2:8":  # two of the four live ones
            rank = torch.where(mask, score, -1.0)
            rank = torch.nn.functional.pad(rank, (0, -channels % 8), value=-1.0)
            kept = (rank.reshape(out, flat, -1, 8).argsort(-1).argsort(-1) >= 6).flatten(2)
            kept = kept[:, :, :channels] & mask
        mask = kept.permute(0, 2, 1)
    else:
        groups = -(-out // 8)
        mask = torch.rand(groups, channels, flat, generator=rng) < 0.5
        mask = mask.repeat_interleave(8, 0)[:out]
    weight = torch.randn(out, channels, *taps, generator=rng)
    return weight, mask.reshape(out, channels, *taps)


@given(
    st.sampled_from(PATTERNS),
    st.tuples(st.integers(1, 20), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(0, 3), st.integers(5, 11), st.integers(5, 9)),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(max_examples=120)
def test_any_window(
    pattern: str,
    sizes: tuple[int, int],
    taps: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    batch: tuple[int, int, int],
    kind: torch.dtype,
) -> None:
    """Stride, padding, dilation, odd sizes, no image at all: torch's convolution in float64."""
    weight, mask = masked_conv(pattern, *sizes, taps, 0)
    packed = sk.pack(weight.to(kind), mask, pattern)
    x = torch.randn(batch[0], sizes[1], *batch[1:], generator=generator()).to(kind)
    bias = torch.randn(sizes[0], generator=generator()).to(kind)
    exact = torch.nn.functional.conv2d(
        x.double(), packed.unpack().double(), bias.double(), stride, padding, dilation
    )
    y = sk.conv2d(x, packed, bias, stride=stride, padding=padding, dilation=dilation)
    assert y.dtype == kind
    assert y.shape == exact.shape
    tolerance = (3e-6 if kind == torch.float32 else 1e-2) * max(
        1.0, float(exact.abs().amax()) if y.numel() else 1.0
    )
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("groups", [2, 4])
def test_groups(pattern: str, groups: int) -> None:
    """Each part of the outputs reads its part of the input."""
    weight, mask = masked_conv(pattern, 32, 8, (3, 3), 1)
    packed = sk.pack(weight, mask, pattern)
    x = torch.randn(2, 8 * groups, 7, 6, generator=generator())
    y = sk.conv2d(x, packed, padding=1, groups=groups)
    exact = torch.nn.functional.conv2d(x, weight * mask, padding=1, groups=groups)
    torch.testing.assert_close(y, exact, rtol=1e-4, atol=1e-4)


def test_rows_of_several_groups_cannot_share_columns() -> None:
    """A row order across a convolution's groups is refused, with the way out."""
    weight = torch.ones(16, 2, 1, 1)
    packed = sk.pack(weight, None, "vector:8@1", rows=[*range(0, 16, 2), *range(1, 16, 2)])
    with pytest.raises(sk.OperandError, match="keeps each group's rows together"):
        sk.conv2d(torch.ones(1, 4, 2, 2), packed, groups=2)


def test_columns_of_all_groups_are_numbered_in_32_bits() -> None:
    """Groups times columns beyond 32 bits are refused before anything is computed."""
    packed = sk.pack(torch.ones(8, 8, 1, 1), None, "vector:8@1")
    shape = (2**29, 8, 1, 1)
    with pytest.raises(sk.OperandError, match="more than 32 bits number"):
        in_groups(packed.operands, packed.values, shape, 2**29)


@pytest.mark.parametrize("pattern", ["tile:8@1+1", "2:4"])
def test_opcheck(pattern: str) -> None:
    """Schema, fake, autograd registration and dynamic shapes pass torch's own check."""
    weight, mask = masked_conv(pattern, 8, 8, (3, 3), 1)
    packed = sk.pack(weight, mask, pattern)
    x = torch.randn(2, 8, 5, 6, generator=generator(), requires_grad=True)
    name, args = operator(packed)
    tail = (8, None, [3, 3, 2, 1, 1, 1, 1, 1])
    torch.library.opcheck(getattr(torch.ops.sparsekernels, f"{name}_conv2d"), (x, *args, *tail))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_gradients(pattern: str) -> None:
    """Gradients of activations, values and bias check in float64."""
    weight, mask = masked_conv(pattern, 8, 8, (2, 2), 2)
    layer = sk.SparseConv2d(
        sk.pack(weight.double(), mask, pattern), torch.randn(8).double(), padding=1, stride=2
    )
    x = torch.randn(1, 8, 3, 4, dtype=torch.float64, requires_grad=True)
    floats = dict(layer.named_parameters())

    def run(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(floats, given, strict=True)), (x,))

    inputs = [x, *(p.detach().clone().requires_grad_() for p in floats.values())]
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_channels_last_and_compile() -> None:
    """Another memory format is taken as it is meant; the layer compiles without a break."""
    weight, mask = masked_conv("2:4", 8, 8, (3, 3), 3)
    layer = sk.SparseConv2d(sk.pack(weight, mask, "2:4"), padding=1)
    x = torch.randn(2, 8, 6, 6, generator=generator()).to(memory_format=torch.channels_last)
    expected = torch.nn.functional.conv2d(x, weight * mask, padding=1)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"x": torch.ones(1, 3, 4, 4)}, "8 channels"),
        ({"x": torch.ones(8, 4, 4)}, "8 channels"),
        ({"x": torch.ones(1, 8, 2, 9)}, "larger than the padded input"),
        ({"stride": 1.5}, "stride is one whole number or two"),
        ({"groups": 3}, "no 3 groups"),
    ],
)
def test_what_does_not_fit_is_named(call: dict[str, object], told: str) -> None:
    """Channels, axes, sizes and windows that do not fit."""
    weight, mask = masked_conv("2:4", 8, 8, (3, 3), 3)
    args: dict[str, object] = {"x": torch.ones(1, 8, 4, 4), **call}
    with pytest.raises(sk.OperandError, match=told):
        sk.conv2d(weight=sk.pack(weight, mask, "2:4"), **args)
