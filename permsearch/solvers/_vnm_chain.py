"""The state of a search for V:N:M orders: rows in strips, columns in groups, and how they move.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.vnm import pair_numbers
from permsearch.kernels.vnm_columns import hole_prices
from permsearch.kernels.vnm_exchange import exchange_prices, exchange_rows, list_sets
from permsearch.kernels.vnm_rows import live_sets, row_benefits, turn
from permsearch.layout import taps_outside
from permsearch.patterns import VNM
from permsearch.solvers._noisy import assigned, grouped, spread
from permsearch.solvers.matrices import MatrixPart

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_MOST_GROUPS = 256  # in a step of columns, whose cost grows with their square
_LISTED = 16  # sets of live columns of a block
_PERIOD = 32  # exchanges for which a list of sets serves
_TRIED = 4  # triples that a column in a hole is tried with
_NEAR = 2.0  # mean entries: what a row may make up for by joining


class Chain:
    """Orders of a weight that steps change, and the best ones so far.

    Parameters
    ----------
    part
        A weight with the pattern V:N:M.
    order
        Where to begin.
    rng
        Asked for noise and for the rows and columns that move.
    exchanges
        Whether rows move by exchanges instead of all at once.

    Attributes
    ----------
    rows, cols, value
        The present orders, and what they keep in the scaled units, from float32 sums.
    best, best_value
        The best orders so far and what they keep.
    """

    def __init__(
        self, part: MatrixPart, order: I64, rng: np.random.Generator, *, exchanges: bool
    ) -> None:
        pattern = part.pattern
        assert isinstance(pattern, VNM)
        self.v, self.m, self.free = pattern.v, pattern.m, part.free
        self.rng, self.exchanges = rng, exchanges
        self.rows, self.cols = (own.copy() for own in part.split(order))
        self.scores: F32 = np.ascontiguousarray(taps_outside(part.scores))
        self.taps = len(self.scores) // len(self.rows)
        self.strips, self.groups = len(self.rows) // self.v, len(self.cols) // self.m
        self._all, self._others = pair_numbers(self.m), pair_numbers(self.m - 1)
        self._pairs = np.empty((0, 2), np.int64)  # made when they are needed
        self._columns: F32 = np.empty(self.scores.shape[::-1], np.float32)
        self._turn()
        self._live = np.empty((self.taps * self.strips, self.groups, 4), np.int64)
        self._row_unit = self._column_unit = -1.0  # of noise; measured when they are needed
        self.value = self.best_value = self._choose()
        self.best = (self.rows.copy(), self.cols.copy())

    @property
    def effort(self) -> float:
        """Entries that a step prices, about."""
        entries = self.scores.size
        sets = len(self._all) ** 3 / 6
        moved = min(self.groups, _MOST_GROUPS)
        return entries * (sets + self.strips / 2 + moved**2 / self.groups * _TRIED / self.m)

    def _turn(self) -> None:
        """Bring the columns up to date: rows in their present order, tap after tap."""
        turn(self.scores, self.rows, self._columns)

    def _choose(self) -> float:
        """Find the live columns of the present orders; return what they keep."""
        return float(live_sets(self._columns, self.cols, self.v, self._all, self._live))

    def back_to_best(self) -> None:
        """Go on from the best orders."""
        self.rows, self.cols = (order.copy() for order in self.best)
        self._turn()
        self.value = self._choose()

    def step(self, noise: float, column_noise: float, *, exchange: bool = False) -> None:
        """Move rows and columns, those that are free, and value where that leads.

        `exchange` moves rows by exchanges in this step, whatever is usual.
        """
        if "rows" in self.free:
            self._exchange(noise) if self.exchanges or exchange else self._regroup(noise)
            self._turn()
        if "cols" in self.free:
            self._move_columns(column_noise)
        self.value = self._choose()
        if self.value > self.best_value:
            self.best_value = self.value
            self.best = (self.rows.copy(), self.cols.copy())

    def _regroup(self, noise: float) -> None:
        """Put every row into the strip whose live columns suit it best, under noise."""
        benefits = np.empty((self.strips, len(self.rows)), np.float32)
        row_benefits(self._columns, self._live, len(self.rows), benefits)
        self.rows = self.rows[grouped(benefits, self.v, noise, self.rng)]

    def _exchange(self, noise: float) -> None:
        """Take one row out of every strip and put them back, again and again, under noise."""
        if not len(self._pairs):
            self._pairs = set_pairs(self.m)
        listed = min(_LISTED, len(self._pairs))
        shape = (self.taps * self.strips, self.groups, listed)
        best, worth = np.empty(shape, np.int64), np.empty(shape, np.float32)
        list_sets(self.scores, self.cols, self.rows, self.v, self._all, best, worth)
        near = np.float32(_NEAR * float(self.scores.mean(dtype=np.float64)))
        prices = np.empty((self.strips, self.strips), np.float32)
        deck = np.argsort(self.rng.random((self.strips, self.v)), axis=1)
        for taken in range(min(self.v, _PERIOD)):
            place = deck[:, taken] + np.arange(self.strips) * self.v
            picked = self.rows[place]
            exchange_prices(self.scores, self.cols, picked, self._pairs, near, best, worth, prices)
            if self._row_unit < 0:
                self._row_unit = spread(prices)
            joins = assigned(prices, noise * self._row_unit, self.rng)
            exchange_rows(self.scores, self.cols, picked, joins, self._pairs, best, worth)
            self.rows[place] = picked[joins]

    def _move_columns(self, noise: float) -> None:
        """Take a column out of every group and put them back where they do best, under noise."""
        some = np.arange(self.groups)
        if self.groups > _MOST_GROUPS:
            some = np.sort(self.rng.permutation(self.groups)[:_MOST_GROUPS])
        place = some * self.m + self.rng.integers(0, self.m, len(some))
        prices = np.empty((len(some), len(some)), np.float32)
        hole_prices(self._columns, self.cols, place, self.v, self._others, _TRIED, prices)
        if self._column_unit < 0:
            self._column_unit = spread(prices)
        to = assigned(prices, noise * self._column_unit, self.rng)
        self.cols[place] = self.cols[place][to]


def set_pairs(m: int) -> I64:
    """Return the pairs that the sets of four of `m` columns consist of, int64 (sets, 2)."""
    numbers = pair_numbers(m)
    pairs = [(numbers[i, j], numbers[k, n]) for i, j, k, n in combinations(range(m), 4)]
    return np.array(pairs, np.int64)
