"""What a comparison with a published search consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

Published: TypeAlias = Callable[[NDArray[Any], str], float]
"""Takes the scores of a weight and the pattern's text; returns the kept sum at its own effort."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pattern, the published search for it, and our solver.

    Attributes
    ----------
    pattern
        The pattern's text.
    label
        How tables call the published search.
    published
        Returns the sum that the published search keeps, run at its default effort.
    ours
        The short name of our solver.
    """

    pattern: str
    label: str
    published: Published
    ours: str = "auto"
