"""Hierarchical N:M: gyro permutation, both phases."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case


def gyro(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that gyro permutation keeps."""
    return ps.search(scores, pattern, solver="gyro").score


CASES = tuple(Case(pattern, "gyro", gyro) for pattern in ("hinm:32@0.5:2:4", "hinm:64@0.5:2:4"))
