"""Rounds of annealing on the axes of a weight whose best blocks stay.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from permsearch.patterns import Block, UnalignedBlock
from permsearch.solvers._block_axes import COLS, ROWS, BlockAxes
from permsearch.solvers.matrices import MatrixPart
from permsearch.solvers.run import Step

I64 = NDArray[np.int64]

_SWEEP = 4e7  # additions of a vector register, about 10 ms
_SWAPS = 4096  # in a turn, at most
_VALUE = 60  # times as many for each entry: the loop values what a sweep brings
_QUENCH = 3  # steps without heat at the end of an annealing, at most
_EXACT = 6  # pairs of exact steps at the end, at most


def axes_of(part: MatrixPart, order: I64, rng: np.random.Generator) -> BlockAxes:
    """Return the state of a search that starts from an order of a part."""
    pattern = part.pattern
    assert isinstance(pattern, Block | UnalignedBlock)
    sizes = pattern.shape if isinstance(pattern, Block) else (1, pattern.size)
    rows, cols = part.split(order.copy())
    kept = pattern.count(part.scores.shape)
    return BlockAxes(part.scores, sizes, kept, (rows, cols), rng)


def free_axes(part: MatrixPart) -> tuple[int, ...]:
    """Return the axes to be moved, rows first."""
    named = (("rows", ROWS), ("cols", COLS))
    return tuple(axis for name, axis in named if name in part.free & part.pattern.axes)


def greedy_turns(state: BlockAxes, axes: tuple[int, ...]) -> Iterator[tuple[float, bool]]:
    """Do TETRIS's swaps of one axis after the other; yield the values, and whether none gained.

    After every turn, of 4096 swaps at most, the blocks that stay are chosen anew.
    """
    best, idle, turn = state.look(axes[0]), 0, 0
    while idle < len(axes):
        if state.swap_greedily(axes[turn % len(axes)], _SWAPS) < _SWAPS:
            turn += 1
        value = state.look(axes[turn % len(axes)])
        idle = 0 if value > best * (1 + 1e-6) else idle + 1
        best = max(best, value)
        yield value, idle >= len(axes)


@dataclass(slots=True)
class Annealing:
    """Annealings that keep the best orders of all.

    Attributes
    ----------
    part, state, axes
        What is searched.
    best, value
        The best order so far and its value, in the part's units.
    """

    part: MatrixPart
    state: BlockAxes
    axes: tuple[int, ...]
    best: I64
    value: float

    @classmethod
    def of(cls, part: MatrixPart, order: I64, rng: np.random.Generator) -> Annealing:
        """Return the state before the first annealing."""
        state, axes = axes_of(part, order, rng), free_axes(part)
        state.measure(axes)
        return cls(part, state, axes, order.copy(), state.look(axes[0]))

    def turns(self, most: int) -> Iterator[Step]:
        """Do TETRIS's turns from the best order, no more than so many; each is a step."""
        self.restore()
        for value, _ in islice(greedy_turns(self.state, self.axes), most):
            self._note(value)
            yield Step(1, self.best, self.value, planned=True)

    def run(self, steps: int, heat: tuple[float, float], *, finish: bool = False) -> Iterator[Step]:
        """Anneal from the best order for so many steps; temperatures fall geometrically.

        With `finish` the best order is then improved by exact assignments.
        """
        self.restore()
        quench = min(_QUENCH, steps // 4)
        falling = steps - quench
        levels = np.append(
            heat[0] * (heat[1] / heat[0]) ** (np.arange(falling + 1) / max(1, falling)),
            np.zeros(quench),
        )
        size = max(1, min(steps, int((_SWEEP + _VALUE * self.part.effort) / self.state.work)))
        for first in range(0, steps, size):
            count = min(size, steps - first)
            for k in range(first, first + count):
                last = levels[k + 1] if k < falling else 0.0
                self._step((levels[k] if k < falling else 0.0, last))
            if first + count == steps:
                self._note(self.state.look(self.axes[0]))
                if finish:
                    self._finish()
            yield Step(count, self.best, self.value, planned=True)

    def _step(self, heat: tuple[float, float]) -> None:
        for axis in self.axes:
            self._note(self.state.look(axis))
            self.state.phase(axis, heat)

    def _finish(self) -> None:
        """Improve the best orders by exact steps on either axis."""
        self.restore()
        for _ in range(_EXACT):
            before = self.value
            for axis in self.axes:
                self.state.look(axis)
                self.state.assign(axis)
                self._note(self.state.look(axis))
            if self.value <= before * (1 + 1e-7):
                break

    def restore(self) -> None:
        """Go back to the best orders."""
        for order, best in zip(self.state.orders, self.part.split(self.best), strict=True):
            order[:] = best

    def _note(self, value: float) -> None:
        if value > self.value:
            self.best, self.value = self.part.join(*self.state.orders), value
