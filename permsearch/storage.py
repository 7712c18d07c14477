"""How much memory a weight takes once it is packed."""

from __future__ import annotations

import math

from permsearch.patterns import NM, Pattern


def stored_bits(pattern: Pattern | None, shape: tuple[int, ...], value_bits: int = 16) -> float:
    """Return the bits that a weight of a pattern takes, values and indices.

    For N:M: N values of every M, each with the bits of its position. None is a dense weight.
    """
    entries = math.prod(shape)
    if pattern is None:
        return float(entries * value_bits)
    if isinstance(pattern, NM):
        return entries * pattern.density * (value_bits + math.ceil(math.log2(pattern.m)))
    return entries * pattern.density * (value_bits + 16)
