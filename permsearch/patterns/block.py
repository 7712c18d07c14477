"""Dense blocks: the best of all aligned blocks stay, the others go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import is_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.limits.effort import CHEAP, Effort
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling
from permsearch.patterns.share import SHARE, checked_share, share_of, share_text


@dataclass(frozen=True, slots=True)
class Block:
    """Blocks of consecutive rows and columns, of which a share of the whole weight stays.

    A convolution (out, in, *k) is the matrix out x (*k, in): every tap has blocks of its own, and
    an order of the input channels acts alike on all of them.

    Parameters
    ----------
    shape
        Rows and columns of a block.
    kept
        Share of the blocks that stay, in (0, 1]; their number is rounded down.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Examples
    --------
    >>> import numpy as np
    >>> Block((1, 2), 0.5).keep(np.array([[1.0, 2.0, 5.0, 0.0]]))
    array([[False, False,  True,  True]])
    >>> str(Block((16, 16), 0.25))
    'block:16x16@0.25'

    References
    ----------
    Ji, Liang, Deng, Zhang, Zhang, Xie: TETRIS: TilE-matching the TRemendous Irregular Sparsity,
    NeurIPS 2018.
    """

    shape: tuple[int, int]
    kept: float

    form: ClassVar[str] = "block:RxC@SHARE"
    text: ClassVar[re.Pattern[str]] = re.compile(r"block:([0-9]{1,9})x([0-9]{1,9})@" + SHARE)

    def __post_init__(self) -> None:
        shape: Any = self.shape
        sides = tuple(shape) if isinstance(shape, tuple | list) else ()
        if len(sides) != 2 or not all(is_whole(side) and side >= 1 for side in sides):
            raise PatternError(
                f"a block has a number of rows and of columns, such as (16, 16); got {shape!r}."
            )
        object.__setattr__(self, "shape", (int(sides[0]), int(sides[1])))
        object.__setattr__(self, "kept", checked_share(self.kept))

    @classmethod
    def from_match(cls, match: re.Match[str]) -> Block:
        """Return the pattern that a match of `text` stands for."""
        return cls((int(match[1]), int(match[2])), float(match[3]))

    def __str__(self) -> str:
        return f"block:{self.shape[0]}x{self.shape[1]}@{share_text(self.kept)}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Axes along which blocks are longer than one entry, where something is dropped."""
        longer: list[Axis] = []
        if self.kept < 1:
            longer += ["rows"] if self.shape[0] > 1 else []
            longer += ["cols"] if self.shape[1] > 1 else []
        return frozenset(longer)

    @property
    def density(self) -> float:
        """The share kept."""
        return self.kept

    @property
    def tiling(self) -> tuple[int, int]:
        """The sides of a block."""
        return self.shape

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless blocks cover the weight and one of them stays."""
        check_tiling(self, shape, self.tiling)
        self.count(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """Return how many blocks of a weight of this shape stay.

        Raises
        ------
        PatternError
            When the share of its blocks is less than one block.
        """
        blocks = int(np.prod(shape)) // (self.shape[0] * self.shape[1])
        kept = share_of(self.kept, blocks)
        if kept == 0:
            raise PatternError(
                f"{self} keeps none of the {blocks} blocks of a weight of shape {tuple(shape)}: "
                f"a share of {1 / blocks:.4g} is the least that keeps one."
            )
        return kept

    def sums(self, scores: Scores) -> NDArray[np.float64]:
        """Return the sum of each block, float64, shape (out / R, prod(k) * in / C)."""
        height, width = self.shape
        matrix = taps_as_columns(scores)
        across = matrix.reshape(len(matrix), -1, width).sum(axis=2, dtype=np.float64)
        total: NDArray[np.float64] = across.reshape(-1, height, across.shape[1]).sum(axis=1)
        return total

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the blocks with the largest sums; ties go to the lower index."""
        self.check(scores.shape)
        sums = self.sums(scores)
        best = np.argsort(-sums, axis=None, kind="stable")[: self.count(scores.shape)]
        chosen = np.zeros(sums.size, dtype=np.bool_)
        chosen[best] = True
        by_block = chosen.reshape(sums.shape)
        mask = by_block.repeat(self.shape[0], axis=0).repeat(self.shape[1], axis=1)
        return weight_from_columns(mask, scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the largest block sums, in float64."""
        self.check(scores.shape)
        sums = self.sums(scores)
        drop = sums.size - self.count(scores.shape)
        return float(np.partition(sums, drop, axis=None)[drop:].sum()) if drop else sums.sum()

    def accepts(self, mask: Mask) -> bool:
        """Decide whether no more blocks than the share have a kept entry."""
        try:
            check_tiling(self, mask.shape, self.tiling)
        except PatternError:
            return False
        blocks = int(np.count_nonzero(self.sums(mask.astype(np.float32))))
        return blocks <= share_of(self.kept, mask.size // (self.shape[0] * self.shape[1]))

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield limits from sorted rows and columns, and from singular values up to some size."""
        from permsearch.limits.partition import block_partition, vector_partition
        from permsearch.limits.rounding import up
        from permsearch.limits.rows import block_top, top_entries, vector_top
        from permsearch.limits.spectral import block_spectral, vector_spectral

        matrix, kept = taps_as_columns(scores).astype(np.float64), self.count(scores.shape)
        height, width = self.shape
        moving = free & self.axes
        if not moving:
            yield up(top_entries(self.sums(scores), kept)), "exact"
            return
        if moving == {"rows", "cols"}:
            yield up(block_top(matrix, self.shape, kept)), "row"
            if effort.spectral(matrix.shape):
                yield block_spectral(matrix, self.shape, kept), "spectral"
            if effort.listing(len(matrix), height):
                yield block_partition(matrix, self.shape, kept), "partition"
            if effort.listing(matrix.shape[1], width):
                yield block_partition(matrix.T, (width, height), kept), "partition"
            return
        # along the axis that stays (or does not matter) the blocks' sums are all that counts
        if moving == {"rows"}:
            summed, side = matrix.reshape(len(matrix), -1, width).sum(axis=2), height
        else:
            summed, side = matrix.reshape(-1, height, matrix.shape[1]).sum(axis=1).T, width
        yield up(vector_top(summed, side, kept)), "row"
        if effort.spectral(summed.shape):
            yield vector_spectral(summed, side, kept), "spectral"
        if effort.listing(len(summed), side):
            yield vector_partition(summed, side, kept), "partition"
