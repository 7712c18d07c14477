"""The reference without structure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permsearch.patterns.base import Axis, Mask, Scores, check_rank
from permsearch.patterns.share import checked_share


@dataclass(frozen=True, slots=True)
class Unstructured:
    """The reference without structure: the largest share `kept` of all entries.

    Parameters
    ----------
    kept
        Share of the entries that stay, in (0, 1], else PatternError; the number of the others is
        rounded to the nearest.

    Examples
    --------
    >>> str(Unstructured(0.25))
    'unstructured@0.25'
    """

    kept: float

    form: ClassVar[str] = "unstructured@SHARE"
    text: ClassVar[re.Pattern[str]] = re.compile(
        r"unstructured@((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", checked_share(self.kept))

    @classmethod
    def from_match(cls, match: re.Match[str]) -> Unstructured:
        """Return the pattern that a match of `text` stands for."""
        return cls(float(match[1]))

    def __str__(self) -> str:
        return f"unstructured@{np.format_float_positional(self.kept, trim='-')}"

    @property
    def axes(self) -> frozenset[Axis]:
        """No order changes anything."""
        return frozenset()

    @property
    def density(self) -> float:
        """The share kept."""
        return self.kept

    def _count(self, size: int) -> int:
        """Return how many of `size` entries stay: all but the rounded number dropped."""
        return size - round((1 - self.kept) * size)

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError for empty arrays and vectors."""
        check_rank(shape)

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the largest entries; their number is exact under ties."""
        self.check(scores.shape)
        mask = np.zeros(scores.size, dtype=np.bool_)
        order = np.argsort(-scores, axis=None, kind="stable")
        mask[order[: self._count(scores.size)]] = True
        return mask.reshape(scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the largest entries, in float64."""
        self.check(scores.shape)
        drop = scores.size - self._count(scores.size)
        if drop == scores.size:
            return 0.0
        top = np.partition(scores, drop, axis=None)[drop:]
        return float(top.sum(dtype=np.float64))

    def accepts(self, mask: Mask) -> bool:
        """Decide whether no more than the share is kept."""
        return int(mask.sum()) <= self._count(mask.size)
