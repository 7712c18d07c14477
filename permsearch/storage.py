"""How much memory a weight takes once it is packed."""

from __future__ import annotations

import math

from permsearch.patterns import (
    NM,
    VNM,
    Block,
    HiNM,
    Pattern,
    TileWise,
    TransposableNM,
    UnalignedBlock,
    VectorWise,
)

_INDEX = 16  # bits of a column's, row's or block's number
_LIVE = 8  # bits of a live column's place in a block of V:N:M


def stored_bits(pattern: Pattern | None, shape: tuple[int, ...], value_bits: int = 16) -> float:
    """Return about how many bits a packed weight takes: its values and their indices.

    Positions within a group of M take log2(M) bits a value, rounded up; the numbers of columns,
    vectors and blocks take 16 bits, live columns of V:N:M 8. Row pointers and orders, which do not
    grow with the number of entries, are left out.

    Parameters
    ----------
    pattern
        The pattern; None is a dense weight, and what is of no kind known here is stored entry by
        entry.
    shape
        Shape of the weight.
    value_bits
        Bits of a stored value.

    Examples
    --------
    >>> from permsearch.patterns import parse_pattern
    >>> [stored_bits(parse_pattern(text), (64, 64)) / 64**2 for text in ("2:4", "64:2:8")]
    [9.0, 4.5625]
    """
    entries = math.prod(shape)
    if pattern is None:
        return float(entries * value_bits)
    return entries * (pattern.density * value_bits + _index_bits(pattern))


def _index_bits(pattern: Pattern) -> float:
    """Return the bits of indices for every entry of the weight, kept or not."""
    match pattern:
        case NM() | TransposableNM():
            return pattern.density * _place(pattern.m)
        case VNM():
            return pattern.density * _place(4) + 4 * _LIVE / (pattern.v * pattern.m)
        case HiNM():
            return pattern.density * _place(pattern.m) + pattern.kept * _INDEX / pattern.v
        case VectorWise():
            return pattern.density * _INDEX / pattern.v
        case Block():
            return pattern.density * _INDEX / math.prod(pattern.shape)
        case UnalignedBlock():
            return pattern.density * _INDEX / pattern.size
        case TileWise():
            tiles = pattern.density - pattern.overlay
            return tiles * _INDEX / pattern.g + pattern.overlay * _INDEX
        case _:
            return pattern.density * _INDEX


def _place(size: int) -> int:
    """Return the bits of a place among so many."""
    return math.ceil(math.log2(size))
