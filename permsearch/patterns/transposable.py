"""N:M in both directions: a weight and its transpose can both be compressed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import PatternError
from permsearch.layout import taps_outside, weight_from_taps
from permsearch.limits.effort import CHEAP, Effort
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling
from permsearch.patterns.nm import NM

_STRIPS = 1 << 22  # entries that are cut into blocks at a time


@dataclass(frozen=True, slots=True)
class TransposableNM:
    """Transposable N:M: every `m` x `m` block keeps `n` entries in each row and each column.

    A convolution (out, in, *k) is one matrix out x in for every tap; all share their orders.

    Parameters
    ----------
    n
        Entries kept in a row and in a column of a block, 1 <= n <= m.
    m
        Sides of a block, at most 32.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Examples
    --------
    >>> import numpy as np
    >>> TransposableNM(1, 2).keep(np.array([[5.0, 4.0], [3.0, 1.0]]))
    array([[False,  True],
           [ True, False]])
    >>> str(TransposableNM(2, 4))
    'transposable:2:4'

    References
    ----------
    Hubara, Chmiel, Island, Banner, Naor, Soudry: Accelerated sparse neural training: a provable
    and efficient method to find N:M transposable masks, NeurIPS 2021.
    """

    n: int
    m: int

    form: ClassVar[str] = "transposable:N:M"
    text: ClassVar[re.Pattern[str]] = re.compile(r"transposable:([0-9]{1,9}):([0-9]{1,9})")

    def __post_init__(self) -> None:
        same = NM(self.n, self.m)  # checks both
        object.__setattr__(self, "n", same.n)
        object.__setattr__(self, "m", same.m)

    @classmethod
    def from_match(cls, match: re.Match[str]) -> TransposableNM:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"transposable:{self.n}:{self.m}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Both, where anything is dropped."""
        return frozenset({"rows", "cols"} if self.n < self.m else ())

    @property
    def density(self) -> float:
        """N / M."""
        return self.n / self.m

    @property
    def tiling(self) -> tuple[int, int]:
        """Rows and columns in groups of `m`."""
        return self.m, self.m

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless blocks cover the weight."""
        check_tiling(self, shape, self.tiling)

    def keep(self, scores: Scores) -> Mask:
        """Return the best mask: no other retains more than rounding away from it."""
        from permsearch.kernels.transposable import masks_of

        self.check(scores.shape)
        matrix = taps_outside(scores)
        mask = np.empty(matrix.shape, np.bool_)
        step = max(1, _STRIPS // (matrix.shape[1] * self.m)) * self.m
        for first in range(0, len(matrix), step):
            strips = slice(first, first + step)
            best = masks_of(cut_blocks(matrix[strips], self.m), self.n)
            mask[strips] = joined_blocks(best, matrix.shape[1])
        return weight_from_taps(mask, scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the scores that the best mask keeps, in float64."""
        return float(scores[self.keep(scores)].sum(dtype=np.float64))

    def accepts(self, mask: Mask) -> bool:
        """Decide whether a mask is one of the pattern's, or part of one.

        Few enough entries in every row and column are not sufficient: some such masks cannot be
        completed.
        """
        try:
            self.check(mask.shape)
        except PatternError:
            return False
        return bool(self.keep(mask.astype(np.float32))[mask].all())

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield what N:M along rows alone and along columns alone holds."""
        from permsearch.limits.rounding import up
        from permsearch.limits.rows import row_top

        matrix, along = taps_outside(scores), NM(self.n, self.m)
        moving = free & self.axes
        if not moving:
            yield up(self.retained(scores)), "exact"
            return
        if "cols" in moving:
            yield up(row_top(matrix, matrix.shape[1] // self.m * self.n)), "row"
        else:
            yield up(along.retained(matrix)), "row"
        taps = matrix.reshape(-1, *scores.shape[:2])
        standing = np.concatenate([np.ascontiguousarray(tap.T) for tap in taps])
        if "rows" in moving:
            yield up(row_top(standing, standing.shape[1] // self.m * self.n)), "row"
        else:
            yield up(along.retained(standing)), "row"


def cut_blocks(matrix: NDArray[Any], m: int) -> NDArray[Any]:
    """Return the `m` x `m` blocks of a matrix, strip after strip, shape (B, m, m), contiguous.

    A block has `m` whole pieces of rows: a run of m * m entries of one row would be no block of
    the transpose.
    """
    cut = matrix.reshape(-1, m, matrix.shape[1] // m, m)
    return np.ascontiguousarray(cut.swapaxes(1, 2)).reshape(-1, m, m)


def joined_blocks(blocks: NDArray[Any], columns: int) -> NDArray[Any]:
    """Undo `cut_blocks` for a matrix of so many columns."""
    m = blocks.shape[1]
    return blocks.reshape(-1, columns // m, m, m).swapaxes(1, 2).reshape(-1, columns)
