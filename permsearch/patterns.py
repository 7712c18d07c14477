"""Patterns: which masks the hardware takes, and the best such mask for given scores.

A pattern is a value. Its text, ``str(pattern)``, and `permsearch.parse_pattern` are inverse.
Masks are boolean, true = kept, and have the shape of the weight they belong to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import PatternError, unknown
from permsearch.layout import taps_as_rows, weight_from_rows

Axis: TypeAlias = Literal["rows", "cols"]
Scores: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]

MAX_M = 32
_BLOCK = 1 << 20  # entries handled at a time, so that the work stays in the cache


@runtime_checkable
class Pattern(Protocol):
    """What a sparsity pattern has to offer to be searched for."""

    @property
    def axes(self) -> frozenset[Axis]:
        """Axes whose order changes the best mask's score."""

    @property
    def density(self) -> float:
        """Share of the entries that a mask keeps."""

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError when arrays of this shape cannot carry the pattern."""

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the highest retained score; ties go to the lower index."""

    def retained(self, scores: Scores) -> float:
        """Return the sum of the scores that the best mask keeps, in float64."""

    def accepts(self, mask: Mask) -> bool:
        """Decide whether a mask is one of the pattern's (it may keep less than allowed)."""


def check_rank(shape: tuple[int, ...]) -> None:
    """Raise PatternError unless a weight of this shape has rows and columns."""
    if len(shape) < 2:
        raise PatternError(
            f"a weight needs at least two axes (out, in), got shape {tuple(shape)}; "
            "reshape it to a matrix."
        )
    if 0 in shape:
        raise PatternError(f"a weight of shape {tuple(shape)} is empty; leave it out.")


def zero_columns(count: int) -> str:
    """Return how people say so many zero columns."""
    return "1 zero column" if count == 1 else f"{count} zero columns"


@dataclass(frozen=True, slots=True)
class NM:
    """N:M sparsity: `n` kept of every `m` consecutive columns of each row.

    Parameters
    ----------
    n
        Entries kept, 1 <= n <= m.
    m
        Consecutive columns (input channels) that compete, at most 32.

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
    text: ClassVar[re.Pattern[str]] = re.compile(r"(\d+):(\d+)")

    def __post_init__(self) -> None:
        for count in (self.n, self.m):
            if isinstance(count, bool) or not isinstance(count, int | np.integer):
                raise PatternError(f"N and M must be integers, got {self.n!r} and {self.m!r}.")
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

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless the columns split into groups of `m`."""
        check_rank(shape)
        if shape[1] % self.m:
            raise PatternError(
                f"{shape[1]} columns do not split into groups of {self.m} for {self}: "
                f"pass pad=True to add {zero_columns(-shape[1] % self.m)}, or choose another M."
            )

    def keep(self, scores: Scores) -> Mask:
        """Return the mask that keeps the `n` largest scores of every group."""
        self.check(scores.shape)
        groups = taps_as_rows(scores).reshape(-1, self.m)
        mask = np.zeros(groups.shape, dtype=np.bool_)
        top = np.argsort(-groups, axis=1, kind="stable")[:, : self.n]
        np.put_along_axis(mask, top, values=True, axis=1)
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


@dataclass(frozen=True, slots=True)
class Unstructured:
    """The reference without structure: the largest share `kept` of all entries.

    Examples
    --------
    >>> str(Unstructured(0.25))
    'unstructured@0.25'
    """

    kept: float

    form: ClassVar[str] = "unstructured@SHARE"
    text: ClassVar[re.Pattern[str]] = re.compile(r"unstructured@(\d+(?:\.\d*)?|\.\d+)")

    def __post_init__(self) -> None:
        if not 0 < self.kept <= 1:
            raise PatternError(f"the share kept must lie in (0, 1], got {self.kept}.")

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


PATTERNS = (NM, Unstructured)


def parse_pattern(text: str | Pattern) -> Pattern:
    """Return the pattern that a text such as ``"2:4"`` names; patterns pass through.

    Raises
    ------
    PatternError
        When the numbers make no pattern.
    UnknownName
        When no pattern is written like this; the message lists the known forms.

    Examples
    --------
    >>> parse_pattern("2:4")
    NM(n=2, m=4)
    """
    if not isinstance(text, str):
        if isinstance(text, type) or not isinstance(text, Pattern):
            raise PatternError(f"a pattern is a text such as '2:4' or a value; got {text!r}.")
        return text
    for kind in PATTERNS:
        match = kind.text.fullmatch(text.strip())
        if match:
            return kind.from_match(match)
    raise unknown("pattern", text, [kind.form for kind in PATTERNS])
