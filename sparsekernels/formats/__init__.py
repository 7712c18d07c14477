"""Packed formats, one for each pattern; `pack` chooses, ``unpack()`` gives the weight back."""

from __future__ import annotations

from sparsekernels.formats.base import PackedWeight
from sparsekernels.formats.block import BlockWeight
from sparsekernels.formats.choose import FORMATS, pack
from sparsekernels.formats.nm import NMWeight
from sparsekernels.formats.tile_wise import TileWiseWeight
from sparsekernels.formats.vector_wise import VectorWiseWeight
from sparsekernels.formats.vnm import HiNMWeight, VNMWeight

__all__ = [
    "FORMATS",
    "BlockWeight",
    "HiNMWeight",
    "NMWeight",
    "PackedWeight",
    "TileWiseWeight",
    "VNMWeight",
    "VectorWiseWeight",
    "pack",
]
