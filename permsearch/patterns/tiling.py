"""The best tiles of a matrix: how many rows stay, and which pieces of every tile.

Rows are cut into tiles of g; only the first ``rows`` of them count, so that the last tile may be
lower. A piece (one column of one tile) has the area of its rows; all pieces together have at most
a given area. With the number of rows fixed the best choice is plain: the last tile's best j
pieces for some j, and the best pieces of the full tiles in the area that is left. Which numbers
of rows are worth trying follows from a price per unit of area: at any price, what pieces are
worth beyond it plus the price of the whole area is an upper limit, and so tight that few remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.top import top_mask, top_sum

F64 = NDArray[np.float64]
Found = TypeVar("Found")

_ROUNDS = 12  # of the overlay's level
_NEAR = 1e-2  # relative; levels that are so close choose the same pieces, nearly
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
    full = _full_sums(matrix, g)
    limits = _limits(matrix, full, g, area)
    best = _Best(-1.0, 0, 0)
    for n in np.argsort(-limits, kind="stable"):
        if limits[n] * (1 + _SLACK) < best.value:
            break
        best = _better(best, _fill(matrix, full, g, int(n) + 1, area))
    count = (best.rows - 1) // g
    pieces = np.zeros((count + 1, width), dtype=np.bool_)
    room = (area - best.last * (best.rows - count * g)) // g
    pieces[:count] = top_mask(full[:count], min(room, count * width))
    pieces[count] = top_mask(_last_sums(matrix, g, best.rows), best.last)
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


def _full_sums(matrix: Scores, g: int) -> F64:
    """Return the sums of the pieces of all full tiles, (R // g, C)."""
    count = len(matrix) // g
    tiles = matrix[: count * g].reshape(count, g, matrix.shape[1])
    sums: F64 = tiles.sum(axis=1, dtype=np.float64)
    return sums


def _last_sums(matrix: Scores, g: int, rows: int) -> F64:
    """Return the sums of the pieces of the last tile of so many rows."""
    sums: F64 = matrix[(rows - 1) // g * g : rows].sum(axis=0, dtype=np.float64)
    return sums


def _limits(matrix: Scores, full: F64, g: int, area: int) -> F64:
    """Return what no pieces of the first 1, 2, ... R rows exceed."""
    from permsearch.kernels.tiles import worth_of_rows

    room = area // g
    price = 0.0
    if room < full.size:
        price = float(np.partition(full, full.size - room - 1, axis=None)[-room - 1]) / g
    limits: F64 = worth_of_rows(matrix, g, price) + price * area
    return limits


def _fill(matrix: Scores, full: F64, g: int, rows: int, area: int) -> _Best:
    """Return the best value of so many rows."""
    count, width = (rows - 1) // g, matrix.shape[1]
    height = rows - count * g
    own = _downwards(_last_sums(matrix, g, rows), width)
    last = np.arange(min(width, area // height) + 1)
    rooms = np.minimum((area - last * height) // g, count * width)
    others = _downwards(full[:count].ravel(), int(rooms[0]))
    values = own[last] + others[rooms]
    at = int(np.argmax(values))
    return _Best(float(values[at]), rows, at)


def _downwards(sums: F64, most: int) -> F64:
    """Return the sums of the largest 0, 1, ... `most` entries."""
    top = np.sort(np.partition(sums, sums.size - most)[sums.size - most :] if most else sums[:0])
    return np.concatenate([[0.0], np.cumsum(top[::-1])])


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
    outside = _Outside(matrix, area, over)

    def attempt(level: float) -> tuple[float, float, Tiles]:
        tiles = best_tiles(np.minimum(matrix, level, dtype=matrix.dtype), g, area)
        return *outside.taken(tiles.mask()), tiles

    return best_level(attempt)


def best_level(attempt: Callable[[float], tuple[float, float, Found]]) -> Found:
    """Return the best of what is found at different levels of an overlay.

    Parameters
    ----------
    attempt
        Takes a level; returns what pieces and overlay hold together when pieces are chosen with
        the scores cut off there, the overlay's least entry, and the choice.
    """
    low, level, high = 0.0, np.inf, np.inf
    best: tuple[float, Found] | None = None
    for _ in range(_ROUNDS):
        value, least, found = attempt(level)
        if best is None or value > best[0]:
            best = value, found
        # the lower the level, the more large entries are left outside, and the higher the least
        low, high = max(low, min(level, least)), min(high, max(level, least))
        following = low if high == np.inf else (low + high) / 2
        if level < np.inf and high - low <= _NEAR * low:
            break
        level = following
    assert best is not None
    return best[1]


class _Outside:
    """The entries that an overlay may take: the largest of all, in or outside of the pieces."""

    def __init__(self, matrix: Scores, area: int, over: int) -> None:
        self._over = over
        flat = matrix.ravel()
        drop = max(0, flat.size - area - over)
        level = np.partition(flat, drop)[drop] if drop < flat.size else 0.0
        self._where = np.flatnonzero(flat >= level)
        self._large = flat[self._where].astype(np.float64)
        self._matrix = matrix

    def taken(self, mask: Mask) -> tuple[float, float]:
        """Return what pieces and overlay hold together, and the overlay's least entry."""
        inside = float(self._matrix[mask].sum(dtype=np.float64))
        rest = self._large[~mask.ravel()[self._where]]
        count = min(self._over, rest.size)
        if count == 0:
            return inside, 0.0
        top = np.partition(rest, rest.size - count)[rest.size - count :]
        return inside + float(top.sum()), float(top[0])


def held(matrix: Scores, tiles: Tiles, over: int) -> float:
    """Return what pieces and the best `over` entries outside of them hold, in float64."""
    if not over:
        return tiles.value
    mask = tiles.mask()
    rest = matrix[~mask]
    return float(matrix[mask].sum(dtype=np.float64)) + top_sum(rest, min(over, rest.size))


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
