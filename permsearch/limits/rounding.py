"""Rounding up: no limit may lie below a score that was summed in another order in float64."""

from __future__ import annotations

# Relative head-room of every limit. Sums of non-negative float64 numbers are off by far less.
ROUNDING = 2.0**-40


def up(value: float) -> float:
    """Return a sum of non-negative float64 numbers, rounded up."""
    return value * (1 + ROUNDING)
