"""The attempts of gyro permutation: rows in tiles, and the columns of a tile.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.hinm import tile_steps
from permsearch.kernels.hinm_rows import inner_products, tile_sums
from permsearch.kernels.transport import balanced
from permsearch.layout import taps_outside
from permsearch.patterns import HiNM
from permsearch.solvers._hinm_search import Tile
from permsearch.solvers._noisy import assigned
from permsearch.solvers.matrices import MatrixPart

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_LLOYD = 20  # iterations of K-means at most


class RowPhase:
    """Rows in tiles, exchanged in clusters while the best vectors of the tiles gain.

    Attributes
    ----------
    rows
        The present order, shape (tiles, v).
    value
        What the tiles' best vectors hold.
    """

    def __init__(self, part: MatrixPart, order: I64, rng: np.random.Generator) -> None:
        pattern = part.pattern
        assert isinstance(pattern, HiNM)
        rows, cols = part.split(order)
        self.pattern, self.rng, self.kept = pattern, rng, pattern.count(len(cols))
        self.scores: F32 = np.ascontiguousarray(taps_outside(part.scores)[:, cols])
        self._taps = len(self.scores) // len(rows)
        self.rows = rows.reshape(-1, pattern.v).copy()
        self.value = float(self._held(self._sums(self.rows)).sum())

    def _sums(self, rows: I64) -> F32:
        """Return the sums over groups of rows, float32 (groups, taps, C)."""
        groups, size = rows.shape
        height, width = len(self.scores) // self._taps, self.scores.shape[1]
        sums = np.empty((self._taps, groups, width), np.float32)
        for k in range(self._taps):
            scores = self.scores[k * height : (k + 1) * height]
            tile_sums(scores, np.ascontiguousarray(rows.ravel()), size, sums[k])
        return np.ascontiguousarray(sums.transpose(1, 0, 2))

    def _held(self, sums: F32) -> NDArray[np.float64]:
        """Return what the best vectors hold, by the first axis."""
        drop = sums.shape[-1] - self.kept
        best = np.partition(sums, drop, axis=-1)[..., drop:] if drop else sums
        held: NDArray[np.float64] = best.sum(axis=(-2, -1), dtype=np.float64)
        return held

    def attempt(self, size: int) -> bool:
        """Take rows out of every tile, cluster them, put the clusters back; keep what gains."""
        tiles, v = self.rows.shape
        picks = np.argsort(self.rng.random((tiles, v)), axis=1)
        out = np.take_along_axis(self.rows, picks[:, :size], axis=1)
        stay = np.take_along_axis(self.rows, picks[:, size:], axis=1)
        clusters = self._clusters(out.ravel(), size) if size > 1 else out
        base, added = self._sums(stay), self._sums(clusters)
        worth = np.stack([self._held(own + added) for own in base])
        to = assigned(worth.astype(np.float32), 0.0, self.rng)
        value = float(worth[np.arange(tiles), to].sum())
        if value <= self.value * (1 + 1e-7):
            return False
        self.value = value
        self.rows = np.concatenate([stay, clusters[to]], axis=1)
        return True

    def _clusters(self, rows: I64, size: int) -> I64:
        """Return clusters of so many rows each, by balanced K-means on their scores."""
        height = len(self.scores) // self._taps
        parts = [self.scores[k * height + rows] for k in range(self._taps)]
        points = np.concatenate(parts, axis=1)
        count = len(rows) // size
        centres = points[self.rng.choice(len(rows), count, replace=False)]
        nearness = np.empty((len(rows), count), np.float32)
        labels = np.full(len(rows), -1)
        for _ in range(_LLOYD):
            inner_products(points, centres, nearness)
            norms = np.einsum("gc,gc->g", centres, centres)
            before, labels = labels, balanced(2 * nearness - norms, size)
            grouped = np.argsort(labels, kind="stable")
            if np.array_equal(before, labels):
                break
            centres = points[grouped].reshape(count, size, -1).mean(axis=1)
        return rows[grouped].reshape(count, size)

    def tiles(self) -> Iterator[Tile]:
        """Yield the tiles of the present rows with their best vectors, tap after tap."""
        height = len(self.scores) // self._taps
        for k in range(self._taps):
            for own in self.rows:
                columns = np.ascontiguousarray(self.scores[k * height + own].T)
                ranked = np.argsort(-columns.sum(axis=1, dtype=np.float64), kind="stable")
                seed = int(self.rng.integers(2**63))
                yield Tile.of(columns, ranked.astype(np.int64), self.pattern, seed)


def gains(tile: Tile, n: int) -> bool:
    """Take a vector out of every group of a tile, put them back; decide whether that gained."""
    before = tile.values[0]
    bank = np.zeros(len(tile.groups) + 1, np.float32)  # there is no noise to be drawn
    args = (tile.columns, tile.groups, tile.dropped, n, 0, np.zeros(1), bank)
    tile_steps(*args, tile.values, tile.best, tile.state)
    return bool(tile.values[0] > before * (1 + 1e-7))
