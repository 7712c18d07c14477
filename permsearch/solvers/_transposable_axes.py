"""Both axes of a weight with transposable N:M masks in small blocks.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.rng import seeded
from permsearch.kernels.transposable_swaps import (
    column_patterns,
    group_values,
    pattern_sums,
    swap_phase,
    swap_scatter,
)

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_TRIES = 64  # swaps proposed in a phase, per item
_SAMPLE = 2000  # swaps that tell the unit of temperatures
_PROPOSAL = 200  # additions of a vector register that could be done while a swap is drawn
_MASKS = 400  # ... and while one entry of an exact mask is found


class PatternAxes:
    """The state of a search by the patterns of columns: see `permsearch.kernels`.

    Parameters
    ----------
    scores
        Shape (out, in, *k).
    n, m
        Kept and sides of a block.
    orders
        Of rows and columns; updated by the search.
    rng
        The source of the proposals.
    """

    def __init__(
        self, scores: F32, n: int, m: int, orders: tuple[I64, I64], rng: np.random.Generator
    ) -> None:
        by_tap = scores.reshape(*scores.shape[:2], -1)
        self._items = (
            np.ascontiguousarray(by_tap.transpose(0, 2, 1)),  # rows, taps, columns
            np.ascontiguousarray(by_tap.transpose(1, 2, 0)),
        )
        self.orders, self._m = orders, m
        self._patterns, self._beside = column_patterns(n, m)
        size = len(self._patterns) * scores.size // m
        self._sums, self._rest = np.empty(size, np.float32), np.empty(size, np.float32)
        self._valid = np.zeros(max(scores.shape[:2]), np.bool_)
        self._worth = np.zeros(max(scores.shape[:2]) // m)
        self._units = [1.0, 1.0]
        self._state = seeded(int(rng.integers(2**63)))

    @property
    def work(self) -> float:
        """Rough time of a phase of each axis, in additions of a vector register."""
        entries = self._items[0].size * len(self._patterns) / self._m
        tries = [_TRIES * len(order) for order in self.orders]
        return float(
            sum(t * (entries / len(o) + _PROPOSAL) for t, o in zip(tries, self.orders, strict=True))
        )

    @property
    def valuing(self) -> float:
        """Rough time of valuing an order, in the same unit."""
        return float(_MASKS * self._items[0].size)

    def look(self, axis: int) -> float:
        """Make ready for moving an axis; return the value of the orders."""
        sums, rest, valid, worth = self._tables(axis)
        pattern_sums(self._items[axis], self.orders[1 - axis], self._patterns, sums)
        group_values(sums, self.orders[axis], self._beside, rest, valid, worth)
        return float(worth.sum())

    def measure(self, axes: tuple[int, ...]) -> None:
        """Set the unit of each axis's temperatures: what random swaps change."""
        for axis in axes:
            self.look(axis)
            sums, *tables = self._tables(axis)
            order, state = self.orders[axis], seeded(axis)
            self._units[axis] = swap_scatter(
                sums, order, self._beside, tuple(tables), _SAMPLE, state
            )

    def phase(self, axis: int, temperatures: tuple[float, float]) -> int:
        """Propose swaps along the axis that was looked at; return how many were accepted."""
        sums, *tables = self._tables(axis)
        unit, order = self._units[axis], self.orders[axis]
        heat = (temperatures[0] * unit, temperatures[1] * unit)
        tries = _TRIES * len(order)
        return int(swap_phase(sums, order, self._beside, tuple(tables), heat, tries, self._state))

    def _tables(self, axis: int) -> tuple[F32, F32, NDArray[np.bool_], NDArray[np.float64]]:
        """Return the parts of the buffers that an axis uses, in its shapes."""
        count = len(self.orders[axis])
        shape = (count, len(self._patterns), self._items[0].size // (count * self._m))
        return (
            self._sums.reshape(shape),
            self._rest.reshape(shape),
            self._valid[:count],
            self._worth[: count // self._m],
        )
