"""Blocks: TETRIS."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case


def tetris(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that TETRIS keeps when it has ended by itself."""
    return ps.search(scores, pattern, solver="tetris").score


CASES = tuple(
    Case(pattern, "TETRIS", tetris) for pattern in ("block:16x16@0.25", "block:32x32@0.25")
)
