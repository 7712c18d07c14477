"""Patterns from their texts."""

from __future__ import annotations

from permsearch.errors import PatternError, unknown
from permsearch.patterns.base import Pattern
from permsearch.patterns.block import Block
from permsearch.patterns.hinm import HiNM
from permsearch.patterns.names import written_here
from permsearch.patterns.nm import NM
from permsearch.patterns.tile import TileWise
from permsearch.patterns.transposable import TransposableNM
from permsearch.patterns.unaligned import UnalignedBlock
from permsearch.patterns.unstructured import Unstructured
from permsearch.patterns.vector import VectorWise
from permsearch.patterns.vnm import VNM

PATTERNS = (
    NM,
    Unstructured,
    VNM,
    HiNM,
    Block,
    TransposableNM,
    UnalignedBlock,
    VectorWise,
    TileWise,
)


def parse_pattern(text: str | Pattern) -> Pattern:
    """Return the pattern that a text such as ``"2:4"`` names; patterns pass through.

    Raises
    ------
    PatternError
        When the numbers make no pattern.
    UnknownName
        When no pattern is written like this; the message lists the known forms.

    Examples
    --------
    >>> parse_pattern("2:4")
    NM(n=2, m=4)
    """
    if not isinstance(text, str):
        if isinstance(text, type) or not isinstance(text, Pattern):
            raise PatternError(f"a pattern is a text such as '2:4' or a value; got {text!r}.")
        return text
    for kind in PATTERNS:
        match = kind.text.fullmatch(text.strip())
        if match:
            return kind.from_match(match)
    meant = written_here(text)
    near = () if meant is None else (meant,)
    raise unknown("pattern", text, [kind.form for kind in PATTERNS], near)
