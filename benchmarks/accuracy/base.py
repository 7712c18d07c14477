"""Cells of an experiment, and what is measured in each.

A cell is one way to prune one network once; what is measured in it is kept for every item (verse,
window, image), so that differences between cells can be paired over items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One way to prune one network once.

    Parameters
    ----------
    pattern, method, order
        Free texts that become rows and columns of a table; "dense" and "" for the dense network.
        Orders named alike everywhere: "stored", "random", "absorbed", "gathered".
    order_seed, calibration_seed
        Draws that are averaged over.
    """

    pattern: str
    method: str
    order: str = "stored"
    order_seed: int = 0
    calibration_seed: int = 0

    @property
    def key(self) -> str:
        """The cell in one line, for people and for ``--only``."""
        draw = f"/{self.order_seed}" if self.order_seed else ""
        return f"{self.pattern} {self.method} {self.order}{draw} c{self.calibration_seed}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a cell came to.

    Attributes
    ----------
    items
        Values of each measure, one for each item, the same items in the same order in every cell.
    numbers
        What else is told about the cell: layer error, kept share, CPU seconds.
    """

    items: Mapping[str, Sequence[float]]
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measure:
    """How a measure is shown.

    Parameters
    ----------
    name
        Its key in `Measured.items`.
    digits
        Decimals in tables; the ledger keeps two more.
    shown
        What becomes of a mean over items in a table (exp of a loss, say); differences are shown
        as they are.
    """

    name: str
    digits: int = 3
    shown: Callable[[float], float] | None = None


class Task(Protocol):
    """A network, its cells, and how a cell is measured."""

    name: str
    measures: Sequence[Measure]

    def cells(self) -> Iterable[Cell]:
        """Return all cells, the most telling ones first."""

    def open(self) -> Callable[[Cell], Measured]:
        """Load everything and return what measures a cell."""
