"""The best tiles of a matrix: how many rows stay, and which pieces of every tile.

Rows are cut into tiles of g; only the first ``rows`` of them count, so that the last tile may be
lower. A piece (one column of one tile) has the area of its rows; all pieces together have at most
a given area. With the number of rows fixed the best choice is plain: the last tile's best j
pieces for some j, and the best pieces of the full tiles in the area that is left. Which numbers
of rows are worth trying follows from a price per unit of area: at any price, what pieces are
worth beyond it plus the price of the whole area is an upper limit, and so tight that few remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.top import top_mask, top_sum

F64 = NDArray[np.float64]

_ROUNDS = 12  # of the overlay's level
_SLACK = 1e-12  # relative; sums in another order differ by less


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """A choice of pieces.

    Attributes
    ----------
    g
        Rows of a tile.
    shape
        Of the matrix.
    rows
        Rows that stay; those behind them are dropped.
    pieces
        bool (tiles, C): what every tile keeps; the last tile may have fewer than `g` rows.
    value
        The sum of the entries kept, float64.
    """

    g: int
    shape: tuple[int, int]
    rows: int
    pieces: NDArray[np.bool_]
    value: float

    def mask(self) -> Mask:
        """Return the mask, bool, of the matrix's shape."""
        mask = np.zeros(self.shape, dtype=np.bool_)
        mask[: self.rows] = self.pieces.repeat(self.g, axis=0)[: self.rows]
        return mask

    @property
    def area(self) -> int:
        """Number of entries kept."""
        heights = np.full(len(self.pieces), self.g)
        heights[-1:] = self.rows - self.g * (len(self.pieces) - 1)
        return int((heights * self.pieces.sum(axis=1)).sum())


def best_tiles(matrix: Scores, g: int, area: int) -> Tiles:
    """Return the pieces of the largest sum; of equal ones, that of the fewest rows.

    Parameters
    ----------
    matrix
        Scores, shape (R, C), >= 0.
    g
        Rows of a tile.
    area
        Entries that may be kept.
    """
    height, width = matrix.shape
    sums = _running(matrix, g)
    limits = _limits(sums, g, area)
    best = _Best(-1.0, 0, 0)
    for rows in sorted(range(1, height + 1), key=lambda n: -limits[n - 1]):
        if limits[rows - 1] * (1 + _SLACK) < best.value:
            break
        best = _better(best, _fill(sums, g, rows, area))
    full = (best.rows - 1) // g
    pieces = np.zeros((full + 1, width), dtype=np.bool_)
    last = best.rows - full * g
    room = (area - best.last * last) // g
    pieces[:full] = top_mask(_full(sums, g, full), min(room, full * width))
    pieces[full] = top_mask(sums[best.rows - 1], best.last)
    return Tiles(g, (height, width), best.rows, pieces, best.value)


@dataclass(frozen=True, slots=True)
class _Best:
    """A value, the number of rows and that of the last tile's pieces."""

    value: float
    rows: int
    last: int


def _better(one: _Best, other: _Best) -> _Best:
    """Return the one of more value or, at the same, of fewer rows."""
    if abs(one.value - other.value) <= _SLACK * abs(one.value):
        return one if 0 < one.rows < other.rows else other
    return one if one.value > other.value else other


def _running(matrix: Scores, g: int) -> F64:
    """Return the sums of every tile's first one, two, ... rows, float64 (R, C)."""
    sums = np.empty(matrix.shape)
    for first in range(0, len(matrix), g):
        tile = matrix[first : first + g]
        np.cumsum(tile, axis=0, dtype=np.float64, out=sums[first : first + g])
    return sums


def _full(sums: F64, g: int, count: int) -> F64:
    """Return the sums of the pieces of the first full tiles, (count, C)."""
    return sums[g - 1 : count * g : g]


def _limits(sums: F64, g: int, area: int) -> F64:
    """Return what no pieces of the first 1, 2, ... R rows exceed."""
    height = len(sums)
    full = _full(sums, g, height // g)
    room = area // g
    price = 0.0
    if room < full.size:
        price = float(np.partition(full, full.size - room - 1, axis=None)[-room - 1]) / g
    heights = np.arange(height) % g + 1
    above = np.maximum(sums - price * heights[:, None], 0).sum(axis=1)
    whole = np.concatenate([[0.0], np.cumsum(above[g - 1 :: g])])
    limits: F64 = price * area + above + whole[np.arange(height) // g]
    return limits


def _fill(sums: F64, g: int, rows: int, area: int) -> _Best:
    """Return the best value of so many rows."""
    full, width = (rows - 1) // g, sums.shape[1]
    last = rows - full * g
    own = np.concatenate([[0.0], np.cumsum(np.sort(sums[rows - 1])[::-1])])
    count = np.arange(min(width, area // last) + 1)
    rooms = np.minimum((area - count * last) // g, full * width)
    pieces = _full(sums, g, full).ravel()
    most = int(rooms[0])
    top = np.sort(np.partition(pieces, pieces.size - most)[pieces.size - most :])[::-1]
    others = np.concatenate([[0.0], np.cumsum(top)])
    values = own[count] + others[rooms]
    at = int(np.argmax(values))
    return _Best(float(values[at]), rows, at)


def tiles_with_overlay(matrix: Scores, g: int, area: int, over: int) -> Tiles:
    """Return pieces of the largest sum together with the `over` best entries outside of them.

    At a level t an entry of a piece is worth no more than t to it: whatever exceeds t the overlay
    would have taken. The best pieces of the scores cut off at t are those of the best mask, up to
    the last piece, when t is the least entry of the overlay; so t is set to that until nothing
    better comes.
    """
    nonzero = matrix > 0
    if (few := np.count_nonzero(nonzero)) <= area + over:  # a masked weight keeps what it has
        tiles = best_tiles(nonzero.astype(np.float64), g, area)
        if few - round(tiles.value) <= over:
            return tiles
    total = float(matrix.sum(dtype=np.float64))
    low, level, high = 0.0, np.inf, np.inf
    best, value = None, -1.0
    for _ in range(_ROUNDS):
        tiles = best_tiles(np.minimum(matrix, level), g, area)
        rest = matrix[~tiles.mask()]
        count = min(over, rest.size)
        found = total - float(rest.sum(dtype=np.float64)) + top_sum(rest, count)
        if found > value:
            best, value = tiles, found
        least = float(np.partition(rest, rest.size - count)[rest.size - count]) if count else 0.0
        # the lower the level, the more large entries are left outside, and the higher the least
        low, high = max(low, min(level, least)), min(high, max(level, least))
        following = low if high == np.inf else (low + high) / 2
        if following in (level, low if high < np.inf else -1.0, high):
            break
        level = following
    assert best is not None
    return best


def overlay_limit(matrix: Scores, g: int, area: int, over: int) -> float:
    """Return what pieces and overlay hold at most together, for this order; not rounded up.

    The least over some levels t of ``over * t``, what entries exceed t by, and the best pieces of
    the scores cut off at t.
    """
    levels = np.unique(matrix)
    limit = np.inf
    for level in levels[:: max(1, len(levels) // 64)]:
        above = over * level + float(np.maximum(matrix - level, 0).sum(dtype=np.float64))
        limit = min(limit, above + best_tiles(np.minimum(matrix, level), g, area).value)
    return limit
