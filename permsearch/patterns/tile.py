"""Tile-wise sparsity and its overlay of single entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permsearch.checks import is_number, keep_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.limits.effort import CHEAP, Effort
from permsearch.patterns.base import Axis, Mask, Scores, check_rank
from permsearch.patterns.share import SHARE, checked_share, share_of, share_text
from permsearch.patterns.tiling import Tiles, best_tiles, held, tiles_with_overlay
from permsearch.patterns.top import top_mask


@dataclass(frozen=True, slots=True)
class TileWise:
    """Outputs dropped, the others in tiles of `g`, and in each tile whole columns kept.

    The rows (outputs) in storage order are cut into tiles of `g`; the last one may be lower. Any
    number of rows at the end may be dropped altogether, which makes the tile that they leave
    lower still. In each tile single columns stay or go: pieces of one column and as many rows as
    the tile has. Which outputs go and which share a tile is a matter of the order of the rows; a
    kernel reads and writes them through lists of indices, so that any order will do.

    A convolution (out, in, *k) is the matrix out x (*k, in): every tap has pieces of its own.

    Parameters
    ----------
    g
        Rows of a tile.
    kept
        Share of all entries that a mask keeps at most, the overlay included, in (0, 1].
    overlay
        Share of all entries that are kept one by one besides the pieces, in [0, kept).

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Examples
    --------
    >>> import numpy as np
    >>> TileWise(2, 0.5).keep(np.array([[1.0, 4.0], [2.0, 0.0], [3.0, 1.0]])).astype(int)
    array([[0, 1],
           [0, 1],
           [1, 0]])
    >>> str(TileWise(128, 0.25)), str(TileWise(128, 0.25, 0.01))
    ('tile:128@0.25', 'tile:128@0.25+0.01')

    References
    ----------
    Guo, Hsueh, Leng, et al.: Accelerating sparse DNN models without hardware-support via
    tile-wise sparsity, SC 2020, arXiv 2008.13006.
    """

    g: int
    kept: float
    overlay: float = 0.0

    form: ClassVar[str] = "tile:G@SHARE[+OVERLAY]"
    text: ClassVar[re.Pattern[str]] = re.compile(
        r"tile:([0-9]{1,9})@" + SHARE + r"(?:\+" + SHARE + r")?"
    )

    def __post_init__(self) -> None:
        keep_whole(self, "g", "G of tile", 1, PatternError)
        object.__setattr__(self, "kept", checked_share(self.kept))
        if not is_number(self.overlay):
            raise PatternError(f"the overlay's share must be a number, got {self.overlay!r}.")
        if not 0 <= self.overlay < self.kept:
            raise PatternError(
                f"the overlay is a part of the share kept: it must lie in [0, {self.kept}), got "
                f"{self.overlay}."
            )
        object.__setattr__(self, "overlay", float(self.overlay))

    @classmethod
    def from_match(cls, match: re.Match[str]) -> TileWise:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), float(match[2]), float(match[3] or 0.0))

    def __str__(self) -> str:
        over = f"+{share_text(self.overlay)}" if self.overlay else ""
        return f"tile:{self.g}@{share_text(self.kept)}{over}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Rows share pieces; columns are kept one by one."""
        return frozenset({"rows"} if self.kept < 1 or self.overlay else ())

    @property
    def density(self) -> float:
        """The share kept, the overlay included."""
        return self.kept

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless the share holds a piece of a full tile."""
        check_rank(shape)
        size = int(np.prod(shape))
        area = self.areas(shape)[0]
        if area < min(self.g, shape[0]):
            raise PatternError(
                f"{self} keeps {area} of the {size} entries of a weight of shape {tuple(shape)} "
                f"in tiles, less than one piece of {min(self.g, shape[0])}; keep a larger share."
            )

    def areas(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return how many entries stay in pieces and in the overlay of a weight of this shape."""
        size = int(np.prod(shape))
        over = share_of(self.overlay, size) if self.overlay else 0
        return share_of(self.kept, size) - over, over

    def tiles(self, scores: Scores) -> Tiles:
        """Return the pieces of the best mask: see `permsearch.patterns.tiling`."""
        self.check(scores.shape)
        area, over = self.areas(scores.shape)
        matrix = taps_as_columns(scores)
        if over:
            return tiles_with_overlay(matrix, self.g, area, over)
        return best_tiles(matrix, self.g, area)

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the most valuable pieces, exactly so where there is no overlay.

        Ties go to the lower index. With an overlay pieces and entries are chosen together by a
        price, which misses the best of all masks by a small part of a piece, see
        `permsearch.patterns.tiling.overlay_limit`.
        """
        mask = self.tiles(scores).mask()
        over = self.areas(scores.shape)[1]
        if over:
            mask |= top_mask(np.where(mask, -1.0, taps_as_columns(scores)), over)
        return weight_from_columns(mask, scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the scores that this mask keeps, in float64."""
        return held(taps_as_columns(scores), self.tiles(scores), self.areas(scores.shape)[1])

    def accepts(self, mask: Mask) -> bool:
        """Decide whether pieces can cover the mask up to as many entries as the overlay has."""
        try:
            self.check(mask.shape)
        except PatternError:
            return False
        area, over = self.areas(mask.shape)
        covered = best_tiles(taps_as_columns(mask).astype(np.float64), self.g, area)
        return int(mask.sum()) - round(covered.value) <= over

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield limits from sorted entries, and from singular values up to some size."""
        from permsearch.limits.rounding import up
        from permsearch.limits.rows import top_entries
        from permsearch.limits.spectral import ragged_spectral

        area, over = self.areas(scores.shape)
        if not free & self.axes and not over:
            yield up(self.retained(scores)), "exact"
            return
        matrix = taps_as_columns(scores).astype(np.float64)
        yield up(top_entries(matrix, area + over)), "unstructured"
        if not effort.spectral(matrix.shape):
            return
        groups = -(-len(matrix) // self.g)
        # what exceeds a level is paid for as if the overlay took it all; any level is right
        level = _least_of_largest(matrix, 2 * over + 1) if over else 0.0
        above = over * level + float(np.maximum(matrix - level, 0).sum()) if over else 0.0
        below = np.minimum(matrix, level) if over else matrix
        yield up(above) + ragged_spectral(below, groups, area), "spectral"


def _least_of_largest(matrix: Scores, count: int) -> float:
    """Return the `count`-th largest entry, or the least one where there are fewer."""
    drop = max(0, matrix.size - count)
    return float(np.partition(matrix, drop, axis=None)[drop])
