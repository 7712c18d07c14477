"""Blocks of one row that may begin at any column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import is_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.limits.effort import CHEAP, Effort
from permsearch.patterns.base import Axis, Mask, Scores, check_rank
from permsearch.patterns.share import SHARE, checked_share, share_of, share_text


@dataclass(frozen=True, slots=True)
class UnalignedBlock:
    """Blocks of `size` consecutive columns of a row, no two overlapping, beginning anywhere.

    A convolution (out, in, *k) is the matrix out x (*k, in); blocks may reach from one tap into
    the next.

    Parameters
    ----------
    size
        Columns of a block.
    kept
        Share of the entries that stay, in (0, 1]; the number of blocks is rounded down, and it is
        no larger than what fits into the rows.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Examples
    --------
    >>> import numpy as np
    >>> UnalignedBlock(2, 0.5).keep(np.array([[0.0, 3.0, 4.0, 1.0]]))
    array([[False,  True,  True, False]])
    >>> str(UnalignedBlock(4, 0.25))
    'unaligned:4@0.25'

    References
    ----------
    Lee, Shin: Toward Efficient Inference with Unaligned Block-wise Pruning, arXiv 2407.19644
    (2024).
    """

    size: int
    kept: float

    form: ClassVar[str] = "unaligned:B@SHARE"
    text: ClassVar[re.Pattern[str]] = re.compile(r"unaligned:([0-9]{1,9})@" + SHARE)

    def __post_init__(self) -> None:
        if not (is_whole(self.size) and self.size >= 1):
            raise PatternError(f"a block has a number of columns >= 1, got {self.size!r}.")
        object.__setattr__(self, "size", int(self.size))
        object.__setattr__(self, "kept", checked_share(self.kept))

    @classmethod
    def from_match(cls, match: re.Match[str]) -> UnalignedBlock:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), float(match[2]))

    def __str__(self) -> str:
        return f"unaligned:{self.size}@{share_text(self.kept)}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Only columns are neighbours; even with all kept, the last of them may not fit a block."""
        return frozenset({"cols"} if self.size > 1 else ())

    @property
    def density(self) -> float:
        """The share kept."""
        return self.kept

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless a block fits into a row and the share allows for one."""
        check_rank(shape)
        width = int(np.prod(shape[1:]))
        if width < self.size:
            raise PatternError(
                f"{width} columns are too few for blocks of {self.size} in {self}: choose shorter "
                "blocks."
            )
        self.count(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """Return how many blocks a weight of this shape keeps.

        Raises
        ------
        PatternError
            When the share of its entries is less than one block.
        """
        size, width = int(np.prod(shape)), int(np.prod(shape[1:]))
        kept = share_of(self.kept, size) // self.size
        if kept == 0:
            raise PatternError(
                f"{self} keeps less than one block of a weight of shape {tuple(shape)}: "
                f"a share of {self.size / size:.4g} is the least that keeps one."
            )
        return min(kept, shape[0] * (width // self.size))

    def starts(self, scores: Scores) -> NDArray[np.bool_]:
        """Return where the best blocks begin, shape (out, prod(k) * in)."""
        from permsearch.kernels.unaligned import best_starts

        self.check(scores.shape)
        chosen, _ = best_starts(taps_as_columns(scores), self.size, self.count(scores.shape))
        return chosen

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the blocks with the largest total: see `permsearch.kernels`."""
        starts = self.starts(scores)
        mask = starts.copy()
        for shift in range(1, self.size):
            mask[:, shift:] |= starts[:, :-shift]
        return weight_from_columns(mask, scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the scores in the best blocks, in float64."""
        return float(taps_as_columns(scores)[taps_as_columns(self.keep(scores))].sum(dtype=float))

    def accepts(self, mask: Mask) -> bool:
        """Decide whether as many blocks as the share allows for cover what is kept."""
        try:
            self.check(mask.shape)
        except PatternError:
            return False
        needed = _blocks_needed(taps_as_columns(mask), self.size)
        fits = bool((needed <= int(np.prod(mask.shape[1:])) // self.size).all())
        return fits and int(needed.sum()) <= self.count(mask.shape)

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield what the price of a block proves where nothing moves, and what rows hold."""
        from permsearch.kernels.unaligned import best_starts
        from permsearch.limits.rounding import up
        from permsearch.limits.rows import top_entries

        matrix, kept = taps_as_columns(scores), self.count(scores.shape)
        if not free & self.axes:
            yield up(best_starts(matrix, self.size, kept)[1]), "price"
            return
        # wherever columns stand, a row's blocks hold no more than its largest entries in turn
        ordered = -np.sort(-matrix.astype(np.float64), axis=1)
        whole = matrix.shape[1] // self.size
        best = ordered[:, : whole * self.size].reshape(len(matrix), whole, self.size).sum(axis=2)
        yield up(top_entries(best, kept)), "row"


def _blocks_needed(mask: Mask, size: int) -> NDArray[np.int64]:
    """Return how many blocks the kept entries of each row need.

    Blocks that begin at the first entry that is not covered yet are the fewest. The last of them
    may stick out of the row; where so many fit into it, they can all be moved to the left.
    """
    covered = np.zeros(len(mask), dtype=np.int64)  # columns of each row
    count = np.zeros(len(mask), dtype=np.int64)
    for column in range(mask.shape[1]):
        opens = mask[:, column] & (covered <= column)
        count += opens
        covered[opens] = column + size
    return count
