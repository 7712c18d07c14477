"""Vector-wise with free rows: Shfl-BW's K-means."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case


def kmeans(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that balanced K-means keeps; it is not helped by the order it is given."""
    result = ps.search(scores, pattern, solver="kmeans")
    return result.score


CASES = tuple(
    Case(pattern, "K-means", kmeans)
    for pattern in ("vector:32@0.25", "vector:32@0.25/group", "vector:64@0.25")
)
