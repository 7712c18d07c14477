"""Rounding up: no limit may lie below a score that was summed in another order in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Relative head-room of every limit. Sums of non-negative float64 numbers are off by far less.
ROUNDING = 2.0**-40


def up(value: float) -> float:
    """Return a sum of non-negative float64 numbers, rounded up."""
    return value * (1 + ROUNDING)


def scaled(scores: NDArray[np.floating[Any]]) -> tuple[float, NDArray[np.float64]]:
    """Return a power of two and the scores in units of it, the largest in [0.5, 1).

    The unit of zeros is 0. Limits that take squares or logarithms on the way need such scores.
    """
    peak = float(scores.max(initial=0.0))
    if peak == 0:
        return 0.0, np.zeros(scores.shape)
    exponent = int(np.frexp(peak)[1])
    units: Any = np.ldexp(scores.astype(np.float64), -exponent)
    return float(np.ldexp(1.0, exponent)), units
