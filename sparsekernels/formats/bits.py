"""Positions of kept entries in 2, 4 or 8 bits, and the word order that tensor cores read."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsekernels.errors import PackError

# For each set of kept entries of four (bit i: entry i), the two positions stored. Sets of fewer
# are filled the way PyTorch's encoder does, so that its words and ours are the same.
_PAIRS = {
    0b0000: (2, 3), 0b0001: (0, 2), 0b0010: (1, 2), 0b0100: (2, 3), 0b1000: (2, 3),
    0b0011: (0, 1), 0b0101: (0, 2), 0b1001: (0, 3), 0b0110: (1, 2), 0b1010: (1, 3), 0b1100: (2, 3),
}  # fmt: skip


def bits_for(m: int) -> int:
    """Return the width of a position within m columns: 2, 4 or 8."""
    return 2 if m <= 4 else 4 if m <= 16 else 8


def positions(mask: Tensor, n: int, m: int) -> Tensor:
    """Return the n positions, rising, that stand for each group of m of a mask.

    Groups that keep fewer are filled up: their values are zero.

    Parameters
    ----------
    mask
        (rows, groups x m), boolean, at most n kept in a group.

    Returns
    -------
    int64 (rows, groups, n).
    """
    groups = mask.reshape(mask.shape[0], -1, m)
    if (n, m) == (2, 4):
        table = torch.zeros(16, 2, dtype=torch.int64)
        for kept, pair in _PAIRS.items():
            table[kept] = torch.tensor(pair)
        codes = (groups.long() << torch.arange(4, device=mask.device)).sum(-1)
        return table.to(mask.device)[codes]
    # kept ones first, then the last free places
    key = groups.long() * m + torch.arange(m, device=mask.device)
    return key.topk(n, dim=-1).indices.sort(-1).values


def pack_bits(places: Tensor, bits: int) -> Tensor:
    """Return bytes of small numbers, lowest bits first, each row on whole bytes.

    Parameters
    ----------
    places
        (rows, count) integers below 2**bits.
    """
    per = 8 // bits
    padded = torch.nn.functional.pad(places.long(), (0, -places.shape[1] % per))
    apart = padded.reshape(places.shape[0], padded.shape[1] // per, per)
    shifts = torch.arange(per, device=places.device) * bits
    packed: Tensor = (apart << shifts).sum(-1).to(torch.uint8)
    return packed


def unpack_bits(packed: Tensor, bits: int, count: int) -> Tensor:
    """Return the (rows, count) numbers that `pack_bits` packed, int64."""
    per = 8 // bits
    shifts = torch.arange(per, device=packed.device) * bits
    apart: Tensor = (packed.long()[:, :, None] >> shifts) & (2**bits - 1)
    return apart.reshape(packed.shape[0], packed.shape[1] * per)[:, :count]


def cutlass_order(meta: Tensor) -> Tensor:
    """Return 2:4 metadata as PyTorch's CUTLASS kernels store it: int16 (rows, columns / 16).

    Rows are dealt by eights into blocks of 32, each 2 x 2 cell is transposed, and columns are
    stored in pairs, as in `torch.sparse._semi_structured_conversions`.

    Parameters
    ----------
    meta
        uint8 (rows, columns / 8) of a 2:4 weight of 16-bit values.

    Raises
    ------
    PackError
        Unless there are multiples of 32 rows and of 32 columns.
    """
    rows, width = meta.shape
    if rows % 32 or width % 4:
        raise PackError(
            f"CUTLASS order needs multiples of 32 rows and of 32 columns, got {rows} x {width * 8}."
        )
    words = meta.contiguous().view(torch.int16)
    source = _cutlass_places(rows, width // 2, meta.device)
    ordered = torch.empty(rows * width // 2, dtype=torch.int16, device=meta.device)
    ordered[source] = words.reshape(-1)
    return ordered.reshape(rows, width // 2)


def from_cutlass_order(words: Tensor) -> Tensor:
    """Return the uint8 metadata that `cutlass_order` reordered."""
    places = _cutlass_places(words.shape[0], words.shape[1], words.device)
    return words.reshape(-1)[places].reshape(words.shape).contiguous().view(torch.uint8)


def _cutlass_places(rows: int, words: int, device: torch.device) -> Tensor:
    """Return where each 16-bit word, row by row, goes."""
    row = torch.arange(rows, device=device)
    dealt = (row // 32 * 32 + row % 8 * 4 + row % 32 // 8)[:, None].expand(rows, words)
    col = torch.arange(words, device=device).expand(rows, words)
    odd_row, odd_col = dealt % 2, col % 2
    new_row = dealt - odd_row + odd_col  # transposed within each cell of 2 x 2
    new_col = col - odd_col + odd_row
    return (new_col // 2 * rows * 2 + new_row * 2 + new_col % 2).reshape(-1)


def mma_order(meta: Tensor) -> Tensor:
    """Return 2:4 metadata as `mma.sp.m16n8k32` reads it: int32 (rows/16, columns/32, 16).

    Word 2g + p of a tile holds row g (low half) and row g + 8 (high half), columns 16p..16p+15.

    Parameters
    ----------
    meta
        uint8 (rows, columns / 8): multiples of 16 rows and of 32 columns.
    """
    rows, width = meta.shape
    if rows % 16 or width % 4:
        raise PackError(f"mma.sp tiles are 16 x 32; got metadata of {rows} x {width * 8}.")
    halves = meta.contiguous().view(torch.int16).reshape(rows // 16, 2, 8, width // 4, 2)
    words = halves.permute(0, 3, 2, 4, 1).contiguous()  # tile, k32, g, p, low/high
    return words.view(torch.int32).reshape(rows // 16, width // 4, 16)
