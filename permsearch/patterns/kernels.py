"""Which patterns the kernels that are known take: a note, not an error, where they do not."""

from __future__ import annotations

from permsearch.patterns.base import Pattern
from permsearch.patterns.hinm import HiNM
from permsearch.patterns.vector import VectorWise
from permsearch.patterns.vnm import VNM

# V of the kernels that were published with a pattern.
_PUBLISHED: dict[type, tuple[int, ...]] = {
    VectorWise: (16, 32, 64, 128),
    VNM: (16, 32, 64, 128),
    HiNM: (32, 64, 128),
}


def kernel_note(pattern: Pattern) -> str | None:
    """Say that no published kernel takes a pattern's V, or None where one does or V is none.

    Examples
    --------
    >>> from permsearch.patterns import parse_pattern
    >>> kernel_note(parse_pattern("vector:48@0.25"))
    'published kernels of vector:48@0.25 take V = 16, 32, 64 or 128; masks may have any V'
    >>> kernel_note(parse_pattern("vector:32@0.25")) is None
    True
    """
    for kind, sizes in _PUBLISHED.items():
        if isinstance(pattern, kind) and getattr(pattern, "v", None) not in sizes:
            listed = ", ".join(map(str, sizes[:-1]))
            return (
                f"published kernels of {pattern} take V = {listed} or {sizes[-1]}; masks may have "
                "any V"
            )
    return None
