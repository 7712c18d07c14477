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
from permsearch.patterns.block import Block
from permsearch.patterns.hinm import HiNM
from permsearch.patterns.kernels import kernel_note
from permsearch.patterns.nm import MAX_M, NM
from permsearch.patterns.parse import PATTERNS, parse_pattern
from permsearch.patterns.tile import TileWise
from permsearch.patterns.transposable import TransposableNM
from permsearch.patterns.unaligned import UnalignedBlock
from permsearch.patterns.unstructured import Unstructured
from permsearch.patterns.vector import VectorWise
from permsearch.patterns.vnm import VNM

__all__ = [
    "MAX_M",
    "NM",
    "PATTERNS",
    "VNM",
    "Axis",
    "Block",
    "HiNM",
    "Limited",
    "Mask",
    "Pattern",
    "Private",
    "Scores",
    "TileWise",
    "Tiled",
    "TransposableNM",
    "UnalignedBlock",
    "Unstructured",
    "VectorWise",
    "check_rank",
    "check_tiling",
    "counted",
    "kernel_note",
    "padded_shape",
    "parse_pattern",
]
