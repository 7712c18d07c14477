"""N:M sparsity: the pattern that sparse tensor cores take (2:4) and its relatives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permsearch.checks import is_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_as_rows, weight_from_rows
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling

MAX_M = 32
_BLOCK = 1 << 20  # entries handled at a time, so that the work stays in the cache


@dataclass(frozen=True, slots=True)
class NM:
    """N:M sparsity: `n` kept of every `m` consecutive columns of each row.

    Parameters
    ----------
    n
        Entries kept, 1 <= n <= m.
    m
        Consecutive columns (input channels) that compete, at most 32.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    References
    ----------
    Mishra et al.: Accelerating sparse deep neural networks, arXiv 2104.08378 (2:4).

    Examples
    --------
    >>> import numpy as np
    >>> NM(2, 4).keep(np.array([[5.0, 1.0, 2.0, 0.5]]))
    array([[ True, False,  True, False]])
    >>> str(NM(2, 4))
    '2:4'
    """

    n: int
    m: int

    form: ClassVar[str] = "N:M"
    text: ClassVar[re.Pattern[str]] = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")

    def __post_init__(self) -> None:
        if not (is_whole(self.n) and is_whole(self.m)):
            raise PatternError(f"N and M must be integers, got {self.n!r} and {self.m!r}.")
        object.__setattr__(self, "n", int(self.n))  # numpy's narrow integers would wrap
        object.__setattr__(self, "m", int(self.m))
        if not 1 <= self.m <= MAX_M:
            raise PatternError(f"M must lie in 1..{MAX_M}, got {self.n}:{self.m}.")
        if not 1 <= self.n <= self.m:
            raise PatternError(
                f"N:M keeps N of every M columns, so 1 <= N <= M; got {self.n}:{self.m}."
            )

    @classmethod
    def from_match(cls, match: re.Match[str]) -> NM:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.n}:{self.m}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Only columns compete, and only where something is dropped."""
        return frozenset({"cols"} if self.n < self.m else ())

    @property
    def density(self) -> float:
        """N / M."""
        return self.n / self.m

    @property
    def tiling(self) -> tuple[int, int]:
        """Any number of rows, columns in groups of `m`."""
        return 1, self.m

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless the columns split into groups of `m`."""
        check_tiling(self, shape, self.tiling)

    def keep(self, scores: Scores) -> Mask:
        """Return the mask that keeps the `n` largest scores of every group."""
        self.check(scores.shape)
        groups = taps_as_rows(scores).reshape(-1, self.m)
        mask = np.zeros(groups.shape, dtype=np.bool_)
        size = max(1, _BLOCK // self.m)
        for start in range(0, len(groups), size):
            some = slice(start, start + size)
            top = np.argsort(-groups[some], axis=1, kind="stable")[:, : self.n]
            np.put_along_axis(mask[some], top, values=True, axis=1)
        return weight_from_rows(mask.reshape(-1, scores.shape[1]), scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the `n` largest scores of every group, in float64."""
        self.check(scores.shape)
        groups = taps_as_rows(scores).reshape(-1, self.m)
        size = max(1, _BLOCK // self.m)
        return sum(
            _top_sum(groups[start : start + size], self.n) for start in range(0, len(groups), size)
        )

    def accepts(self, mask: Mask) -> bool:
        """Decide whether no group keeps more than `n`."""
        if mask.ndim < 2 or mask.shape[1] % self.m:
            return False
        groups = taps_as_rows(mask).reshape(-1, self.m)
        return bool((groups.sum(axis=1) <= self.n).all())


def _top_sum(groups: Scores, n: int) -> float:
    """Return the sum of the `n` largest of every row, in float64.

    Sorting insertion by whole columns: for the few entries of a group that is several times
    faster than partitioning each row.
    """
    levels = np.zeros((n, len(groups)), groups.dtype)
    carry = np.empty(len(groups), groups.dtype)
    for place in range(groups.shape[1]):
        carry[:] = groups[:, place]
        for level in levels[: place + 1]:
            smaller = np.minimum(level, carry)
            np.maximum(level, carry, out=level)
            carry = smaller
    return float(levels.sum(dtype=np.float64))
