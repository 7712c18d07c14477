"""The state of a search for hierarchical N:M: rows in tiles, then each tile's own columns.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.hinm import tile_steps
from permsearch.kernels.hinm_rows import tile_sums
from permsearch.kernels.rng import seeded
from permsearch.layout import taps_outside
from permsearch.patterns import HiNM
from permsearch.solvers._clusters import Clusters, Grouping
from permsearch.solvers._hinm_dealing import Dealing
from permsearch.solvers.matrices import MatrixPart

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_BANK = 1 << 16  # normals
_PER_ENTRY = 10  # a float is priced in the time that bytes are priced in as many entries
_REACH = 1.6  # times the share of a row that is kept: what of it counts when rows are grouped


@dataclass(slots=True)
class Tile:
    """Columns of one tile in groups, and those that it dropped."""

    columns: F32  # (C, V)
    groups: I64  # (G, m)
    dropped: I64
    best: I64
    values: NDArray[np.float64]  # what the groups keep, what the best did, unit of noise
    state: NDArray[np.uint64]

    @classmethod
    def of(cls, columns: F32, ranked: I64, pattern: HiNM, seed: int) -> Tile:
        """Return the tile that keeps the first columns of a ranking, in stored order."""
        count = pattern.count(len(columns))
        groups = np.sort(ranked[:count]).reshape(-1, pattern.m)
        ordered = np.sort(columns[groups], axis=1)[:, pattern.m - pattern.n :]
        value = float(ordered.sum(dtype=np.float64))
        values = np.array([value, value, -1.0])
        return cls(columns, groups, ranked[count:].copy(), groups.copy(), values, seeded(seed))

    def back_to_best(self) -> None:
        """Go on from the best groups."""
        self.groups = self.best.copy()
        self.dropped = np.setdiff1d(np.arange(len(self.columns)), self.groups)
        self.values[0] = self.values[1]


class Search:
    """Orders of a weight's rows and of its tiles' columns.

    Attributes
    ----------
    rows, cols
        The order of the rows, set by `cut`, and that of the columns, which stays.
    clusters
        The rows while they are being grouped; None where they stay or all vectors are kept.
    tiles
        Made by `cut`; tap after tap.
    """

    def __init__(self, part: MatrixPart, order: I64, rng: np.random.Generator) -> None:
        assert isinstance(part.pattern, HiNM)
        self.pattern, self.rng = part.pattern, rng
        self.rows, self.cols = part.split(order)
        self.scores: F32 = np.ascontiguousarray(taps_outside(part.scores)[:, self.cols])
        self.kept = self.pattern.count(len(self.cols))
        self._bank = rng.standard_normal(_BANK, dtype=np.float32)
        self._excess = self._thresholded()
        self.tiles: list[Tile] = []
        self.clusters: Clusters | Dealing | None = None
        if self.kept < len(self.cols) and "rows" in part.free:
            self.clusters = self._rows_in_motion()

    def _rows_in_motion(self) -> Clusters | Dealing:
        """Return the rows with what counts of their entries, ready to be moved."""
        if len(self.scores) > len(self.rows):
            return Dealing(self._excess, self.rows, self.pattern.v, self.kept, self.rng)
        first = np.arange(0, len(self.rows) + 1, self.pattern.v)
        area = self.kept * self.pattern.v
        grouping = Grouping(self._excess, first, area, together=False, live=len(first) - 1)
        return Clusters(grouping, self.rows, self.rng)

    @property
    def exchanges(self) -> int:
        """Exchanges of rows that take about as long as a step of the columns."""
        assert self.clusters is not None
        return max(1, round(_PER_ENTRY * self.effort / self.clusters.work))

    def _thresholded(self) -> F32:
        """Return what entries exceed a level of their row by.

        What lies far below what a row keeps is dropped inside its groups in any case, so that it
        must not attract vectors: the level is that of somewhat more entries than the row keeps.
        """
        width = self.scores.shape[1]
        counted = min(width, round(_REACH * width * self.pattern.density))
        if counted == width:
            return self.scores
        level = np.partition(self.scores, width - counted, axis=1)[:, width - counted]
        excess: F32 = np.maximum(self.scores - level[:, None], np.float32(0))
        return excess

    def cut(self) -> None:
        """Begin anew with the best vectors of the best rows, in stored order."""
        if self.clusters is not None:
            self.rows = self.clusters.best.copy()
        sums = np.empty((len(self.scores) // self.pattern.v, len(self.cols)), np.float32)
        tile_sums(self._excess, self.rows, self.pattern.v, sums)
        ranked = np.argsort(-sums, axis=1, kind="stable")
        v, count = self.pattern.v, len(self.rows)
        self.tiles = []
        for t, best in enumerate(ranked):
            first = t * v % count
            own = t * v // count * count + self.rows[first : first + v]
            columns = np.ascontiguousarray(self.scores[own].T)
            seed = int(self.rng.integers(2**63))
            self.tiles.append(Tile.of(columns, best.astype(np.int64), self.pattern, seed))

    def move_columns(self, noises: NDArray[np.float64]) -> None:
        """Do a step per noise in every tile."""
        entering = max(1, self.kept // self.pattern.m // 2)
        for tile in self.tiles:
            tile_steps(
                tile.columns,
                tile.groups,
                tile.dropped,
                self.pattern.n,
                entering,
                noises,
                self._bank,
                tile.values,
                tile.best,
                tile.state,
            )

    @property
    def value(self) -> float:
        """What the best groups of all tiles keep, in the scaled units."""
        return float(sum(tile.values[1] for tile in self.tiles))

    @property
    def orders(self) -> I64:
        """The tiles' own orders, int64 (tiles, kept): columns as they are stored."""
        return np.stack([tile.best.ravel() for tile in self.tiles])

    @property
    def effort(self) -> float:
        """Entries that a step of the columns prices, about."""
        groups = self.kept // self.pattern.m
        return 1.5 * float(groups**2 * len(self.scores))
