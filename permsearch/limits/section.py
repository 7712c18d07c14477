"""Golden section: the least value of a function that falls and then rises."""

from __future__ import annotations

from collections.abc import Callable

_GOLDEN = 0.6180339887498949


def lowest(function: Callable[[float], float], low: float, high: float, sections: int) -> float:
    """Return the least value that so many sections of an interval see.

    Whatever the function, the answer is one of its values: a limit where all of them are.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    best = min(at_left, at_right)
    for _ in range(sections):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
        best = min(best, at_left, at_right)
    return best
