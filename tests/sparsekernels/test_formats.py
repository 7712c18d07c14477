"""Packed formats: what goes in comes out, bit for bit; what is not of the pattern is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.sparse import _semi_structured_conversions as theirs

import permsearch as ps
import sparsekernels as sk
from sparsekernels.formats import bits
from tests.sparsekernels import drawn


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same bytes (and zeros of the same sign)."""
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return left.dtype == right.dtype and torch.equal(
        left.contiguous().view(width), right.contiguous().view(width)
    )


@given(drawn.masked())
def test_unpack_gives_back_every_bit(case: drawn.Masked) -> None:
    """Any pattern, any odd shape, any order, any float type: the masked weight comes back."""
    packed = case.pack()
    assert same_bits(packed.unpack(), case.dense)
    assert packed.shape == tuple(case.weight.shape)
    rows, cols = packed.padded
    assert rows >= 0
    assert cols >= 0


@given(drawn.masked(), st.sampled_from([(3, 3), (1, 2), (2,)]))
def test_convolution_weights_come_back(case: drawn.Masked, taps: tuple[int, ...]) -> None:
    """A weight (out, in, *k) of clustering patterns packs tap after tap and comes back."""
    if case.pattern[0] not in "vt":
        return
    mask = case.mask[:, :, None].expand(*case.mask.shape, torch.Size(taps).numel())
    shape = (*case.mask.shape, *taps)
    weight = torch.randn(shape, generator=generator())
    packed = sk.pack(weight, mask.reshape(shape), case.pattern, case.rows)
    assert torch.equal(packed.unpack(), weight * mask.reshape(shape))


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 99))
def test_nm_of_a_convolution_pads_the_channels(rows: int, channels: int, seed: int) -> None:
    """2:4 along input channels of every tap, whatever their number; the padding is told."""
    rng = generator(seed)
    wide = -(-channels // 4) * 4
    mask = drawn.pick((rows, 3, 3, wide // 4, 4), 2, rng).reshape(rows, 3, 3, wide)
    mask = mask.permute(0, 3, 1, 2)[:, :channels]
    weight = torch.randn(mask.shape, generator=rng)
    packed = sk.pack(weight, mask, "2:4")
    assert torch.equal(packed.unpack(), weight * mask)
    assert packed.padded == (0, wide - channels)


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 999))
@settings(max_examples=25)
def test_metadata_equals_pytorchs_word_for_word(
    high: int, wide: int, full: bool, seed: int
) -> None:
    """Values and reordered metadata of 2:4 are those of torch's CUTLASS encoder."""
    case = drawn.nm(32 * high, 8 * wide, 2, 4, generator(seed), full=full)
    stored = case.dense.half()[:, case.cols]
    packed = sk.pack(stored, stored != 0, "2:4")
    values, meta = theirs.sparse_semi_structured_from_dense_cutlass(stored)
    ours, words = packed.cutlass()
    assert torch.equal(ours, values)
    assert words.dtype == meta.dtype
    assert torch.equal(words, meta)
    assert torch.equal(bits.from_cutlass_order(words), packed.metadata)
    again = theirs.sparse_semi_structured_to_dense_cutlass(ours, words)
    assert torch.equal(again, stored)


def test_mma_words_are_those_that_lanes_read() -> None:
    """The word order for mma.sp holds rows g and g + 8 and half of 32 columns in each word."""
    case = drawn.nm(32, 16, 2, 4, generator(3), full=True)
    packed = sk.pack(case.dense[:, case.cols], None, "2:4")
    words = bits.mma_order(packed.metadata).long() & 0xFFFFFFFF
    places = bits.unpack_bits(packed.metadata, 2, packed.values.shape[1])
    for tile, k32, lane in [(0, 0, 0), (1, 1, 5), (0, 1, 14), (1, 0, 15)]:
        g, half = divmod(lane, 2)
        for high in (0, 1):
            row = tile * 16 + g + 8 * high
            for kept in range(8):
                got = int(words[tile, k32, lane]) >> (16 * high + 2 * kept) & 3
                assert got == int(places[row, k32 * 16 + half * 8 + kept])


@given(st.integers(1, 6), st.integers(0, 20), st.sampled_from([2, 4, 8]), st.integers(0, 99))
def test_bits_come_back(rows: int, count: int, width: int, seed: int) -> None:
    """Positions of any number and width survive packing into bytes."""
    places = torch.randint(0, 2**width, (rows, count), generator=generator(seed))
    packed = bits.pack_bits(places, width)
    assert packed.shape == (rows, -(-count * width // 8))
    assert torch.equal(bits.unpack_bits(packed, width, count), places)


def test_bsr_is_torchs() -> None:
    """A block weight becomes a torch BSR tensor of the same entries."""
    case = drawn.block(16, 24, 4, 6, generator())
    packed = case.pack()
    stored = case.dense[case.rows][:, case.cols]
    assert torch.equal(packed.to_bsr().to_dense(), stored)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("2:4", "128 groups of 4 columns keep more than 2"),
        ("vector:8@0.25", "64 of 64 vectors of 8 rows are in use, at most 16"),
        ("block:4x4@0.25", "32 of 32 blocks are in use"),
        ("tile:8@0.25", "tiles keep 448 of 512 entries"),
        ("8:2:8", "blocks of 8 rows and 8 columns use more than 4 columns"),
        ("hinm:8@0.5:2:4", "a tile of 8 rows uses 32 of 32 columns"),
    ],
)
def test_a_mask_of_another_pattern_is_refused(pattern: str, told: str) -> None:
    """The message says how many places break the pattern, never a wrong weight."""
    mask = torch.ones(16, 32, dtype=torch.bool)
    mask[::8] = False
    if pattern == "2:4":
        mask = torch.ones(16, 32, dtype=torch.bool)
    weight = torch.randn(16, 32, generator=generator())
    with pytest.raises(sk.PackError, match=told):
        sk.pack(weight, mask, pattern)


def test_hinm_takes_the_survivors_in_order_without_own_orders() -> None:
    """Where no tile orders are given the kept columns follow each other as they stand."""
    case = drawn.hinm(16, 6, 8, 3, generator(1))
    ascending = case.tiles.sort(1).values
    mask = torch.zeros(2, 8, 24, dtype=torch.bool)
    inside = drawn.pick((2, 8, 3, 4), 2, generator(2)).reshape(2, 8, 12)
    mask.scatter_(2, ascending[:, None].expand(2, 8, 12), inside)
    mask = mask.reshape(16, 24)
    packed = sk.pack(case.weight, mask, case.pattern)
    assert torch.equal(packed.unpack(), case.weight * mask)
    with pytest.raises(sk.PackError, match="live columns"):
        sk.pack(case.weight, case.mask, case.pattern, case.rows)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"pattern": "3-of-4"}, "no packed format holds"),
        ({"pattern": "5:4"}, "1 <= N <= M"),
        ({"pattern": "64:3:8"}, "2 of 4 live"),
        ({"pattern": "unstructured@0.5"}, "no packed format holds"),
        ({"rows": [0, 1]}, "rows is no order of 8"),
        ({"cols": [0] * 16}, "cols is no order of 16"),
        ({"mask": torch.ones(8, 15, dtype=torch.bool)}, "boolean mask"),
        ({"mask": torch.ones(8, 16)}, "boolean mask"),
        ({"weight": torch.ones(8, 16, dtype=torch.int32)}, "int32 cannot be packed"),
        ({"weight": torch.ones(16)}, "rows and columns"),
        ({"tiles": [[0]]}, "only hinm takes"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], told: str) -> None:
    """Each argument that does not fit is told by name."""
    weight = torch.ones(8, 16)
    given_args: dict[str, object] = {"weight": weight, "mask": torch.zeros(8, 16).bool()}
    given_args |= {"pattern": "2:4"} | change
    if change.get("weight") is not None:
        given_args["mask"] = None
    with pytest.raises(sk.PackError, match=told):
        sk.pack(**given_args)


def test_a_masked_nan_is_no_value() -> None:
    """What the mask drops does not matter, not even where it is no number."""
    weight = torch.tensor([[1.0, float("nan"), 2.0, float("inf")]])
    packed = sk.pack(weight, torch.tensor([[True, False, True, False]]), "2:4")
    assert torch.equal(packed.unpack(), torch.tensor([[1.0, 0.0, 2.0, 0.0]]))


def test_moving_to_another_type_keeps_the_places() -> None:
    """`to` changes values alone, overlay included."""
    packed = drawn.tile(24, 20, 8, 0.05, generator()).pack()
    lower = packed.to(torch.bfloat16)
    assert lower.overlay.dtype == torch.bfloat16
    assert torch.equal(lower.unpack(), packed.unpack().bfloat16())


@pytest.mark.parametrize("pattern", ["2:4", "vector:8@0.5", "8:2:8", "block:8x4@0.5"])
def test_orders_that_name_padding_are_taken(pattern: str) -> None:
    """A search that padded rows and columns names them beyond the last: they hold nothing."""
    found = ps.search(
        np.random.default_rng(0).standard_normal((13, 11)),
        pattern,
        solver="random",
        pad=True,
        stop=ps.MaxSteps(2),
    )
    weight = torch.randn(13, 11, generator=generator())
    mask = torch.from_numpy(np.ascontiguousarray(found.mask))
    packed = sk.pack(weight, mask, pattern, found.rows, found.cols)
    assert torch.equal(packed.unpack(), weight * mask)
    x = torch.randn(20, 11, generator=generator())
    torch.testing.assert_close(sk.linear(x, packed), x @ (weight * mask).t(), rtol=1e-4, atol=1e-4)


def test_indices_of_more_than_32_bits_are_refused() -> None:
    """Before anything of that size is made."""
    weight = torch.ones(1, 1).expand(2**31 + 8, 4)
    mask = torch.ones(1, 1, dtype=torch.bool).expand(2**31 + 8, 4)
    with pytest.raises(sk.PackError, match="more than 32 bits"):
        sk.pack(weight, mask, "2:4")
