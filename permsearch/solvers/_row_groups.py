"""How the rows of a weight are cut into groups for its pattern, and where a search begins.

Imported only where it runs, since it loads kernels.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.tiles import worth_of_rows
from permsearch.layout import taps_as_columns
from permsearch.patterns import TileWise, VectorWise
from permsearch.patterns.base import Pattern
from permsearch.patterns.tiling import Tiles, held
from permsearch.patterns.top import top_mask
from permsearch.published.tilewise import tile_wise
from permsearch.solvers._clusters import Grouping
from permsearch.solvers.kmeans import clustered

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_CLUSTERINGS = 5  # assignments of K-means that a start is worth


class RowGroups(Protocol):
    """The rows of a weight as its pattern groups them.

    Attributes
    ----------
    dealt
        Whether rows of every start are dealt anew before it is tried, not only of the first.
    """

    dealt: bool

    def known(self) -> list[I64]:
        """Return orders that the search must not end below."""

    def starts(self, order: I64, rng: np.random.Generator) -> list[I64]:
        """Return orders of the rows to begin with, the given one first."""

    def value(self, order: I64) -> float:
        """Return what an order retains, in float64."""

    def grouping(self, order: I64) -> Grouping:
        """Return the groups that an order is best cut into."""

    def finished(self, order: I64) -> I64:
        """Return an order with the same groups that is at least as good."""


def row_groups(pattern: Pattern, scores: F32) -> RowGroups:
    """Return the row groups of a pattern for scores of the shape of the weight."""
    matrix = np.ascontiguousarray(taps_as_columns(scores))
    if isinstance(pattern, VectorWise):
        return _Vectors(matrix, pattern)
    assert isinstance(pattern, TileWise)
    return _Tiles(matrix, pattern)


class _Vectors:
    """Groups of v rows."""

    dealt = True

    def __init__(self, matrix: F32, pattern: VectorWise) -> None:
        first = np.arange(0, len(matrix) + 1, pattern.v)
        area = pattern.v * pattern.count(matrix.shape)
        together = pattern.balance == "layer"
        self._matrix, self._pattern = matrix, pattern
        self._grouping = Grouping(matrix, first, area, together, len(first) - 1)

    def known(self) -> list[I64]:
        return []

    def starts(self, order: I64, rng: np.random.Generator) -> list[I64]:
        """Return the given order and, where groups may come away empty, two more.

        Those are rows by their sums and clusters of the places of large entries: groups that keep
        nothing have nothing that would draw rows to them.
        """
        if not self._grouping.together or self._grouping.live < 2:
            return [order]
        guide = top_mask(self._matrix, self._grouping.area)
        clusters = islice(clustered(guide, self._pattern.v, rng), _CLUSTERINGS)
        return [order, _by_strength(self._matrix, np.arange(len(order))), list(clusters)[-1]]

    def value(self, order: I64) -> float:
        return self._pattern.retained(self._matrix[order])

    def grouping(self, order: I64) -> Grouping:
        del order
        return self._grouping

    def finished(self, order: I64) -> I64:
        return order


class _Tiles:
    """Tiles of g rows, the last of them lower, and outputs that are dropped."""

    dealt = False  # it would be for more full tiles than there had better be

    def __init__(self, matrix: F32, pattern: TileWise) -> None:
        self._matrix, self._pattern = matrix, pattern
        self._area, self._over = pattern.areas(matrix.shape)
        self._known: tuple[I64, Tiles] | None = None  # the tiles of the order asked for last

    def known(self) -> list[I64]:
        """Return the order of published pruning."""
        return [tile_wise([self._matrix], self._pattern)[0].rows]

    def starts(self, order: I64, rng: np.random.Generator) -> list[I64]:
        """Return the given order, and three that begin or end with the strongest rows.

        The last tile may have any height, so that it can fit the rows that deserve most.
        """
        del rng
        falling, g = _by_strength(self._matrix, np.arange(len(order))), self._pattern.g
        return [order, falling, falling[::-1].copy(), np.concatenate([falling[g:], falling[:g]])]

    def value(self, order: I64) -> float:
        return held(self._matrix[order], self._tiles(order), self._over)

    def _tiles(self, order: I64) -> Tiles:
        if self._known is None or not np.array_equal(self._known[0], order):
            self._known = order.copy(), self._pattern.tiles(self._matrix[order])
        return self._known[1]

    def grouping(self, order: I64) -> Grouping:
        g, matrix = self._pattern.g, self._matrix
        tiles = self._tiles(order)
        cap = self._cap(matrix[order][~tiles.mask()]) if self._over else np.inf
        # outputs that are dropped stand in groups of their own, from where they may come back
        live = np.append(np.arange(0, tiles.rows, g), tiles.rows)
        dropped = np.arange(tiles.rows + g, len(matrix), g)
        ends = [len(matrix)] if tiles.rows < len(matrix) else []
        first = np.concatenate([live, dropped, ends]).astype(np.int64)
        return Grouping(matrix, first, self._area, True, len(live) - 1, cap)

    def _cap(self, outside: F32) -> float:
        """Return the least entry of the overlay: what exceeds it is the overlay's."""
        count = min(self._over, outside.size)
        least = float(np.partition(outside, outside.size - count)[outside.size - count])
        return least if least > 0 else np.inf

    def finished(self, order: I64) -> I64:
        grouping = self.grouping(order)
        matrix = np.minimum(self._matrix, np.float32(grouping.cap))
        return weakest_last(matrix, order, self._pattern.g, grouping)


def weakest_last(matrix: F32, order: I64, g: int, grouping: Grouping) -> I64:
    """Return the order with the tiles rearranged, and the rows of the last one by strength.

    The rows behind those that stay are dropped, which makes the pieces of the last tile lower. Of
    tiles of equal height any may be last; where one is lower, it is, and rows that were dropped
    may come back to it.

    Parameters
    ----------
    matrix
        Scores, float32 (R, C).
    order
        Rows as they stand in the tiles, those dropped at the end.
    g
        Rows of a tile.
    grouping
        The tiles, and the area that they may keep.
    """
    first = grouping.first[: grouping.live + 1]
    sums = np.array([matrix[order[a:b]].sum(axis=0, dtype=np.float64) for a, b in pairwise(first)])
    heights = np.diff(first)
    price = _price(sums[heights == g], g, grouping.area)
    ragged = heights[-1] < g
    dropped = order[first[-1] :]
    best, gain = order, 0.0
    for t in [len(sums) - 1] if ragged else range(len(sums)):
        kept = sums[t] > price * heights[t]
        rows = _by_strength(matrix, order[first[t] : first[t + 1]], kept)
        back = _by_strength(matrix, dropped, kept)
        worth = worth_of_rows(matrix[np.concatenate([rows, back])[:g]], g, price)
        if worth.max() - worth[len(rows) - 1] > gain:
            gain = float(worth.max() - worth[len(rows) - 1])
            best = np.concatenate([order[: first[t]], order[first[t + 1] : first[-1]], rows, back])
    return best


def _by_strength(matrix: F32, rows: I64, kept: NDArray[np.bool_] | slice = slice(None)) -> I64:
    """Return rows by what they hold in some columns, the strongest first."""
    strength = matrix[rows][:, kept].sum(axis=1, dtype=np.float64)
    return rows[np.argsort(-strength, kind="stable")]


def _price(sums: NDArray[np.float64], g: int, area: int) -> float:
    """Return what an entry costs where pieces of full tiles fill the area."""
    room = area // g
    if room >= sums.size:
        return 0.0
    return float(np.partition(sums, sums.size - room - 1, axis=None)[-room - 1]) / g
