"""Shares in patterns: their text, their check, and the whole number that they stand for."""

from __future__ import annotations

import math

import numpy as np

from permsearch.checks import is_number
from permsearch.errors import PatternError

#: Regular expression of a share such as ``0.25``, as one group.
SHARE = r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
_NEARLY = 1e-9  # of one: 0.1 of 30 is 3, although the product of the floats lies beside it


def checked_share(kept: float) -> float:
    """Return a share as a plain float.

    Raises
    ------
    PatternError
        When it is no number in (0, 1].
    """
    if not is_number(kept):
        raise PatternError(f"the share kept must be a number, got {kept!r}.")
    if not 0 < kept <= 1:
        percent = f"; {kept:g} % is {kept / 100:g}" if 1 < kept <= 100 else ""
        raise PatternError(f"the share kept must lie in (0, 1], got {kept}{percent}.")
    return float(kept)


def share_text(kept: float) -> str:
    """Return the shortest text without an exponent that names a share exactly."""
    return str(np.format_float_positional(kept, trim="-"))


def share_of(kept: float, count: int) -> int:
    """Return how many of `count` things are kept: never more than the share.

    Examples
    --------
    >>> share_of(0.25, 10)
    2
    """
    return min(count, math.floor(kept * count + _NEARLY))
