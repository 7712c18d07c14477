"""Patterns: which masks the hardware takes, and the best such mask for given scores."""

from permsearch.patterns.base import (
    Axis,
    Limited,
    Mask,
    Pattern,
    Private,
    Scores,
    Tiled,
    check_rank,
    check_tiling,
    counted,
    padded_shape,
)
from permsearch.patterns.nm import MAX_M, NM
from permsearch.patterns.parse import PATTERNS, parse_pattern
from permsearch.patterns.unstructured import Unstructured

__all__ = [
    "MAX_M",
    "NM",
    "PATTERNS",
    "Axis",
    "Limited",
    "Mask",
    "Pattern",
    "Private",
    "Scores",
    "Tiled",
    "Unstructured",
    "check_rank",
    "check_tiling",
    "counted",
    "padded_shape",
    "parse_pattern",
]
