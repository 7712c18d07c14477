"""Both axes of a weight whose best blocks stay, one of them at a time.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.blocks import group_sums, item_sums, swap_phase, swap_scatter
from permsearch.kernels.blocks_tetris import greedy_swaps, worth_of_items
from permsearch.kernels.rng import seeded
from permsearch.kernels.transport import transport
from permsearch.solvers._axis_annealing import COLS, ROWS

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]

_TRIES = 16  # swaps proposed in a phase, per item
_FLAT_TRIES = 2  # ... where blocks are one row high: items then have many more sums
_SUMS, _PRICES = 30, 150  # additions of a vector register in which an entry of blocks is valued
_SAMPLE = 2000  # swaps that tell the unit of temperatures


class BlockAxes:
    """The state of a search: two orders, and the sums that the axis being moved needs.

    Parameters
    ----------
    scores
        Shape (out, in, *k).
    sizes
        Rows and columns of a block. Items of an axis that fill no group stay where they are.
    kept
        Blocks that stay; all where there are fewer.
    orders
        Of rows and columns; updated by the search.
    rng
        The source of the proposals.
    """

    def __init__(
        self,
        scores: F32,
        sizes: tuple[int, int],
        kept: int,
        orders: tuple[I64, I64],
        rng: np.random.Generator,
    ) -> None:
        by_tap = scores.reshape(*scores.shape[:2], -1)
        self._first = (
            np.ascontiguousarray(by_tap.transpose(0, 2, 1)),  # rows, taps, columns
            np.ascontiguousarray(by_tap.transpose(1, 2, 0)),
        )
        self.groups = tuple(len(o) // s for o, s in zip(orders, sizes, strict=True))
        taps = by_tap.shape[2]
        widths = (taps * self.groups[COLS], taps * self.groups[ROWS])
        self.items = [
            np.empty((len(orders[axis]), widths[axis]), np.float32) for axis in (ROWS, COLS)
        ]
        self.blocks = [
            np.empty((self.groups[axis], widths[axis]), np.float32) for axis in (ROWS, COLS)
        ]
        self.sizes, self.orders = sizes, orders
        self.kept = min(kept, self.blocks[ROWS].size)
        self.units = [1.0, 1.0]
        self._across: list[I64] = [np.empty(0, np.int64), np.empty(0, np.int64)]
        self._tries = _FLAT_TRIES if 1 in sizes else _TRIES
        self.price = np.float32(0)
        self._state = seeded(int(rng.integers(2**63)))
        self._prices: list[NDArray[np.float64]] = [np.zeros(count) for count in self.groups]

    @property
    def work(self) -> float:
        """Rough time of a phase, in additions of a vector register."""
        entries = self._first[0].size / 8
        tries = sum(self._tries * len(items) * (items.shape[1] / 4 + 60) for items in self.items)
        return float(entries + tries)

    @property
    def valuing(self) -> float:
        """Rough time of valuing an order, in the same unit."""
        return float((_PRICES if self.sizes[0] == 1 else _SUMS) * self._first[0].size)

    def look(self, axis: int) -> float:
        """Sum up the blocks for an axis to be moved; return the value of the orders."""
        other = 1 - axis
        order, size = self.orders[other], self.sizes[other]
        if not np.array_equal(order, self._across[axis]):  # where it stays, so do the items' sums
            item_sums(self._first[other], order[: self._used(other)], size, self.items[axis])
            self._across[axis] = order.copy()
        return self._sum_groups(axis)

    def _sum_groups(self, axis: int) -> float:
        blocks = self.blocks[axis]
        group_sums(self.items[axis], self.orders[axis], self.sizes[axis], blocks)
        drop = blocks.size - self.kept
        ranked = np.partition(blocks, drop, axis=None)
        self.price = ranked[drop]
        return float(ranked[drop:].sum(dtype=np.float64))

    def measure(self, axes: tuple[int, ...]) -> None:
        """Set the unit of each axis's temperatures: what random swaps change."""
        for axis in axes:
            self.look(axis)
            args = (self.orders[axis][: self._used(axis)], self.sizes[axis], self.price)
            state = seeded(axis)
            items, blocks = self.items[axis], self.blocks[axis]
            scatter = swap_scatter(items, blocks, *args, _SAMPLE, state)
            self.units[axis] = scatter if math.isfinite(scatter) else 0.0

    def phase(self, axis: int, temperatures: tuple[float, float]) -> int:
        """Propose swaps along the axis that was looked at; return how many were accepted."""
        unit = self.units[axis]
        return int(
            swap_phase(
                self.items[axis],
                self.blocks[axis],
                self.orders[axis][: self._used(axis)],
                self.sizes[axis],
                self.price,
                (temperatures[0] * unit, temperatures[1] * unit),
                self._tries * len(self.orders[axis]),
                self._state,
            )
        )

    def benefit(self, axis: int) -> F32:
        """Return what each item of the axis that was looked at is worth in each group.

        The blocks that stay are those that stay now.
        """
        chosen = np.zeros(self.blocks[axis].shape, np.bool_)
        chosen.flat[np.argsort(-self.blocks[axis], axis=None, kind="stable")[: self.kept]] = True
        worth = np.empty((len(self.items[axis]), len(chosen)), np.float32)
        worth_of_items(self.items[axis], chosen, worth)
        return worth

    def swap_greedily(self, axis: int, most: int) -> int:
        """Do the largest swaps first, while they gain; return their number."""
        order = self.orders[axis][: self._used(axis)]
        return int(greedy_swaps(self.benefit(axis), order, self.sizes[axis], most))

    def assign(self, axis: int) -> None:
        """Put the items into the groups where they are worth most together: exact."""
        order = self.orders[axis][: self._used(axis)]
        worth = np.ascontiguousarray(self.benefit(axis)[order])
        labels = transport(worth, self.sizes[axis], self._prices[axis])
        order[:] = order[np.argsort(labels, kind="stable")]

    def _used(self, axis: int) -> int:
        return self.groups[axis] * self.sizes[axis]
