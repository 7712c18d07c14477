"""Transposable N:M: the published mask rules, which know no orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks.pattern_cases.base import Case, Published
from permsearch.published.transposable import entropic_mask, flow_mask, two_approximation_mask


def kept(rule: Callable[[Any, Any], NDArray[np.bool_]]) -> Published:
    """Return what takes scores and a pattern's text and returns the sum that a rule keeps."""

    def published(scores: NDArray[Any], pattern: str) -> float:
        mask = rule(scores, ps.parse_pattern(pattern))
        return float(scores[mask].sum(dtype=np.float64))

    return published


CASES = (
    Case("transposable:2:4", "min-cost flow", kept(flow_mask)),
    Case("transposable:2:4", "two-approximation", kept(two_approximation_mask)),
    Case("transposable:2:4", "entropic", kept(entropic_mask)),
    Case("transposable:8:16", "min-cost flow", kept(flow_mask)),
    Case("transposable:8:16", "entropic", kept(entropic_mask)),
)
