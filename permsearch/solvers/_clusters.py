"""Rows in groups that keep columns in common: the state that a search of them works on.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.clusters import anneal_groups, group_sums, set_prices
from permsearch.kernels.rng import seeded
from permsearch.kernels.sad import padded_bytes
from permsearch.kernels.transport import rough_prices, transport_uneven

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_BANK = 1 << 16  # normals
_TOP = 255
_MOST_MASS = 1 << 26  # of a row's levels: what the assignment kernel takes
_MOST_GROUPS = 128  # in a step: the best of more holes is little better, and dearer
_PACE = 16  # steps between two settings of the prices
_PEAK = 12.0  # mean entries that the top level stands for at most


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """What is to be grouped.

    Attributes
    ----------
    matrix
        float32 (R, C), >= 0.
    first
        Where each group begins in an order, int64 (G + 1,), groups of one row at least.
    area
        Entries kept: of all groups together or of each.
    together
        Which of the two.
    live
        Groups that keep anything; the rows of those behind them are dropped.
    cap
        What an entry counts at most; infinity where all of it counts.
    """

    matrix: F32
    first: I64
    area: int
    together: bool
    live: int
    cap: float = np.inf

    def like(self, other: Grouping) -> bool:
        """Decide whether two groupings of one matrix are the same."""
        same = (self.live, self.area, self.cap) == (other.live, other.area, other.cap)
        return same and np.array_equal(self.first, other.first)

    @property
    def heights(self) -> I64:
        """Rows of each group."""
        return np.diff(self.first)


class Clusters:
    """An order of the rows, being annealed; and the best one so far.

    Rows are bytes. Where every group keeps as much, a constant may be taken off a row without
    changing which order is best; taking the rows' means off makes strong rows no more welcome
    than weak ones, so that prices hold while rows move.
    """

    def __init__(self, grouping: Grouping, order: I64, rng: np.random.Generator) -> None:
        self.grouping = grouping
        self.order, self.best = order.copy(), order.copy()
        self.levels, self.step, offset = _levels(grouping)
        self._mass = self.levels.sum(axis=1, dtype=np.int32)
        self._constant = 0.0
        if not grouping.together:
            kept = grouping.area // int(grouping.heights[0])
            self._constant = kept * float(offset.sum(dtype=np.float64))
        groups = len(grouping.first) - 1
        self._sums = np.empty((groups, self.levels.shape[1]), np.int32)
        self._prices = np.zeros(groups, np.int32)
        self._state = seeded(int(rng.integers(2**63)))
        self._bank = rng.standard_normal(_BANK, dtype=np.float32)
        self._duals = np.zeros(len(order), np.float32)
        self._value = np.array([-np.inf])
        self._shadow: NDArray[np.float64] | None = None  # prices of the last reassignment
        self._count = min(groups, _MOST_GROUPS)
        self._unit = _noise_unit(grouping) / self.step
        self.begin(order)

    @property
    def value(self) -> float:
        """Value of the best order, in the scores' units; entries above the cap count as that."""
        return float(self._value[0]) * self.step + self._constant

    @property
    def work(self) -> float:
        """Time of a step, in entries that could be priced meanwhile; a rough figure."""
        count = self._count
        return float(
            count**2 * self.levels.shape[1] + 8 * count * self.levels.shape[1] + 60 * count**2.5
        )

    def begin(self, order: I64) -> None:
        """Go on from an order; the best one so far is kept if it is better."""
        self.order[:] = order
        group_sums(self.levels, self.order, self.grouping.first, self._sums)
        self.anneal(np.zeros(0))

    def anneal(self, noises: NDArray[np.float64]) -> None:
        """Do one step per noise: standard deviations in units of what the rows differ by."""
        grouping = self.grouping
        shape = (
            grouping.matrix.shape[1],
            grouping.first,
            grouping.live,
            grouping.area,
            grouping.together,
            self._count,
            _PACE,
        )
        anneal_groups(
            self.levels,
            self._mass,
            shape,
            self.order,
            self.best,
            self._value,
            (noises * self._unit).astype(np.float32),
            (self._sums, self._prices, self._bank, self._duals),
            self._state,
        )

    def reassign(self) -> bool:
        """Deal all rows of the best order anew for the columns kept; return whether that gains.

        The columns that groups keep say what each row is worth in each group; the best balanced
        assignment follows, and then the columns kept change.
        """
        grouping = self.grouping
        width = grouping.matrix.shape[1]
        group_sums(self.levels, self.best, grouping.first, self._sums)
        limits = (grouping.first, grouping.live, grouping.area, grouping.together)
        set_prices(self._sums, width, *limits, self._prices)
        kept = self._sums[:, :width] > self._prices[:, None]
        # whole numbers in float: exact in any order of addition, hence on any number of threads
        kind: Any = np.float32 if width * _TOP < 1 << 24 else np.float64
        benefit = self.levels[:, :width].astype(kind) @ kept.T.astype(kind)
        if self._shadow is None:
            self._shadow = np.zeros(len(kept))
            rough_prices(benefit, grouping.heights, self._shadow)
        labels = transport_uneven(benefit, grouping.heights, self._shadow)
        before = float(self._value[0])
        self.begin(np.argsort(labels, kind="stable"))
        return float(self._value[0]) > before


def _levels(grouping: Grouping) -> tuple[NDArray[np.uint8], float, NDArray[np.float32]]:
    """Return rows as bytes, the value of a level, and what was taken off each row."""
    matrix = grouping.matrix
    top = min(_TOP, max(1, _MOST_MASS // matrix.shape[1]))
    mean = float(matrix.mean(dtype=np.float64))
    peak = min(float(matrix.max()), grouping.cap, _PEAK * mean)
    offset = np.zeros(len(matrix), np.float32)
    if not grouping.together:
        offset = matrix.mean(axis=1, dtype=np.float64).astype(np.float32)
        offset -= offset.max()
        peak -= float(offset.min())
    step = peak / top if peak > 0 else 1.0
    levels = padded_bytes(*matrix.shape)
    for r, row in enumerate(matrix):
        levels[r, : len(row)] = np.minimum((row - offset[r]) * np.float32(1 / step) + 0.5, top)
    return levels, step, offset


def _noise_unit(grouping: Grouping) -> float:
    """Return the spread of what a row holds in the columns of a group, in half levels of 1."""
    first = grouping.first
    height = first[grouping.live if grouping.together else 1]
    spread = float(np.minimum(grouping.matrix, grouping.cap).std(dtype=np.float64))
    return 2 * spread * float(np.sqrt(grouping.area / height))
