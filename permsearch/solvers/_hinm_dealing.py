"""Rows of convolutions in tiles: every tap keeps as many vectors, whatever it weighs.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.hinm_rows import tile_sums, vector_benefits
from permsearch.solvers._noisy import grouped

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_HEAT = 2.5  # standard deviations of a row's worth in a unit of noise
_FLOAT = 4  # entries of bytes that are priced while a float is added


class Dealing:
    """An order of the rows that is dealt anew again and again, and the best one so far.

    It offers what `permsearch.solvers._clusters.Clusters` does, which knows one budget of vectors
    for a whole tile: where taps weigh differently, the strong ones would take the others' share.

    Parameters
    ----------
    scores
        float32 (taps * R, C), tap after tap.
    order
        Where to begin, int64 (R,).
    v, kept
        Rows of a tile, and the vectors that it keeps in each tap.
    rng
        Asked for noise.
    """

    def __init__(
        self, scores: F32, order: I64, v: int, kept: int, rng: np.random.Generator
    ) -> None:
        self._scores, self._v, self._kept, self._rng = scores, v, kept, rng
        shape = (len(scores) // len(order), len(order), scores.shape[1])
        self._columns: F32 = np.ascontiguousarray(scores.reshape(shape).transpose(0, 2, 1))
        self.order, self.best = order.copy(), order.copy()
        self.value = -1.0
        self._live = self._look()

    @property
    def work(self) -> float:
        """Time of a step, in entries of bytes that could be priced meanwhile."""
        return float(_FLOAT * len(self._scores) * len(self.order) // self._v * self._kept)

    def _look(self) -> I64:
        """Return the best vectors of the present order; keep the order if they hold more."""
        width = self._scores.shape[1]
        sums = np.empty((len(self._scores) // self._v, width), np.float32)
        tile_sums(self._scores, self.order, self._v, sums)
        live: I64 = np.argpartition(sums, width - self._kept, axis=1)[:, width - self._kept :]
        live.sort(axis=1)
        value = float(np.take_along_axis(sums, live, axis=1).sum(dtype=np.float64))
        if value > self.value * (1 + 1e-7):
            self.value, self.best = value, self.order.copy()
        return live

    def _deal(self, noise: float) -> None:
        benefits = np.empty((len(self.order) // self._v, len(self.order)), np.float32)
        vector_benefits(self._columns, self._live, benefits)
        self.order = grouped(benefits, self._v, noise, self._rng)
        self._live = self._look()

    def reassign(self) -> bool:
        """Deal all rows anew for the vectors kept; return whether that gains."""
        before = self.value
        self._deal(0.0)
        return self.value > before

    def anneal(self, noises: NDArray[np.float64]) -> None:
        """Deal all rows anew for every noise."""
        for noise in noises:
            self._deal(_HEAT * float(noise))
