"""Tile-wise: pruning outputs, then pieces, without an order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case
from permsearch.published.tilewise import tile_wise


def pruned(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that tile-wise pruning of one weight keeps."""
    parsed = ps.parse_pattern(pattern)
    assert isinstance(parsed, ps.TileWise)
    (layer,) = tile_wise([scores], parsed)
    return float(scores[layer.mask].sum(dtype=np.float64))


CASES = tuple(
    Case(pattern, "column, row pruning", pruned)
    for pattern in ("tile:128@0.25", "tile:128@0.25+0.01")
)
