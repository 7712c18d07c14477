"""Checks of counts and numbers that people give, told in one sentence that names the value."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_whole(value: object) -> bool:
    """Decide whether a value is an integer of Python's or numpy's; a bool is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Decide whether a value is a real number of Python's or numpy's; a bool is none."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(what: str, value: Any, least: int, error: type[ValueError] = ValueError) -> int:
    """Return a count as a plain integer.

    Raises
    ------
    ValueError
        Or `error`, where it is no integer or less than `least`.
    """
    if not is_whole(value):
        raise error(f"{what} must be an integer, got {value!r}.")
    if value < least:
        raise error(f"{what} must be at least {least}, got {value}.")
    return int(value)


def check_number(what: str, value: Any) -> None:
    """Raise ValueError unless a value is a number (NaN is left to the check of its range)."""
    if not is_number(value):
        raise ValueError(f"{what} must be a number, got {value!r}.")
