"""V:N:M: the cheap rule of the largest columns, which has no order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pattern_cases.base import Case
from permsearch.patterns import VNM, parse_pattern
from permsearch.published.vnm import norm_rule


def largest_columns(scores: NDArray[Any], pattern: str) -> float:
    """Return the sum that the rule keeps."""
    parsed = parse_pattern(pattern)
    assert isinstance(parsed, VNM)
    return float(scores[norm_rule(scores, parsed)].sum(dtype=np.float64))


CASES = tuple(
    Case(pattern, "norm rule", largest_columns) for pattern in ("64:2:8", "32:2:8", "64:2:16")
)
