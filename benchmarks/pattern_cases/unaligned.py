"""Unaligned blocks: greedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case
from permsearch.published.unaligned import greedy_mask


def greedy(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that blocks taken from heavy to light keep."""
    parsed = ps.parse_pattern(pattern)
    assert isinstance(parsed, ps.UnalignedBlock)
    return float(scores[greedy_mask(scores, parsed)].sum(dtype=np.float64))


CASES = tuple(
    Case(pattern, "greedy", greedy) for pattern in ("unaligned:4@0.25", "unaligned:8@0.25")
)
