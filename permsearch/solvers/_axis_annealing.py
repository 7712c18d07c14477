"""Annealing of the rows and columns of a weight in turn, whatever the pattern.

Imported only where it runs, since what it anneals loads kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from permsearch.solvers.matrices import MatrixPart
from permsearch.solvers.run import Step

I64 = NDArray[np.int64]

ROWS, COLS = 0, 1
_SWEEP = 4e7  # additions of a vector register, about 10 ms
_VALUES = 4  # a sweep takes so many times as long as valuing what it brings
_QUENCH = 3  # steps without heat at the end of an annealing, at most


class Axes(Protocol):
    """Both orders of a weight, and what is known for the axis that is moved."""

    @property
    def orders(self) -> tuple[I64, I64]:
        """The orders of rows and columns, updated in place."""

    @property
    def work(self) -> float:
        """Rough time of a phase of each axis, in additions of a vector register."""

    @property
    def valuing(self) -> float:
        """Rough time that the loop takes to value an order exactly, in the same unit."""

    def look(self, axis: int) -> float:
        """Make ready for moving an axis; return the value of the orders."""

    def phase(self, axis: int, temperatures: tuple[float, float]) -> int:
        """Propose swaps along the axis that was looked at; return how many were accepted."""


def free_axes(part: MatrixPart) -> tuple[int, ...]:
    """Return the axes to be moved, rows first."""
    named = (("rows", ROWS), ("cols", COLS))
    return tuple(axis for name, axis in named if name in part.free & part.pattern.axes)


@dataclass(slots=True)
class AxisAnnealing:
    """Annealings one after the other that keep the best orders of all.

    Attributes
    ----------
    part, axes
        What is searched, and the axes that may move.
    best, value
        The best order so far and its value, in the part's units.
    """

    part: MatrixPart
    axes: tuple[int, ...]
    best: I64
    value: float

    def run(
        self,
        state: Axes,
        steps: int,
        heat: tuple[float, float],
        finish: Callable[[], None] | None = None,
    ) -> Iterator[Step]:
        """Anneal from the best order for so many steps; temperatures fall geometrically.

        `finish` may improve the best orders further; it is called before the last report, since a
        run limited in steps ends with it.
        """
        self.restore(state)
        quench = min(_QUENCH, steps // 4)
        falling = max(1, steps - quench)
        levels = heat[0] * (heat[1] / heat[0]) ** (np.arange(falling + 1) / falling)
        size = max(1, min(steps, int((_SWEEP + _VALUES * state.valuing) / state.work)))
        for first in range(0, steps, size):
            count = min(size, steps - first)
            for k in range(first, first + count):
                self._step(state, (levels[k], levels[k + 1]) if k < falling else (0.0, 0.0))
            if first + count == steps:
                self.note(state, state.look(self.axes[0]))
                if finish is not None:
                    finish()
            yield Step(count, self.best, self.value, planned=True)

    def _step(self, state: Axes, heat: tuple[float, float]) -> None:
        for axis in self.axes:
            self.note(state, state.look(axis))
            state.phase(axis, heat)

    def restore(self, state: Axes) -> None:
        """Put the best orders into the state."""
        for order, best in zip(state.orders, self.part.split(self.best), strict=True):
            order[:] = best

    def note(self, state: Axes, value: float) -> None:
        """Keep the orders of the state if they are the best."""
        if value > self.value:
            self.best, self.value = self.part.join(*state.orders), value
