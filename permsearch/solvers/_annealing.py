"""Chains of annealing sweeps on 8-bit columns, whole assignments or swaps.

Imported only where they run, since they load the kernels.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.anneal import anneal_memory, anneal_sweep
from permsearch.kernels.quantise import quantise
from permsearch.kernels.rng import seeded
from permsearch.kernels.swap_anneal import swap_anneal_sweep, swap_state
from permsearch.stack import Stack

I64 = NDArray[np.int64]

_BANK = 1 << 16  # normals
_ASSIGNMENT = 60  # of n groups: n ** 2.5 times as many entries could be priced meanwhile
# Groups in a step. Fewer would be cheaper but gain less a second, up to here; beyond, the
# assignment's cubic cost and, in memory, its square take over.
_MOST_GROUPS = 1024
_MOST_PRICES = 1 << 26  # entries of the table of known prices: 256 MB


class Chain(Protocol):
    """A search that carries its state from sweep to sweep."""

    stack: Stack
    best: I64
    steadiness: float
    assigns: bool

    @property
    def work(self) -> float:
        """Entries priced in a step."""

    @property
    def effort(self) -> float:
        """The time of a step, in entries that could be priced meanwhile; a rough figure."""

    @property
    def mark(self) -> int:
        """A number that rises whenever `best` changes."""

    def sweep(self, noises: NDArray[np.float64]) -> None:
        """Do one step per noise."""


class AssignmentChain:
    """Annealed assignment of one column of every group at a time."""

    assigns = True

    def __init__(self, stack: Stack, order: I64, rng: np.random.Generator) -> None:
        count, m = len(order), stack.m
        self.stack, self.order, self.best = stack, order, order.copy()
        self.levels, step = quantise(stack.columns, stack.n, m)
        clipped = np.minimum(stack.columns, np.float32(255 * step))
        self._unit = noise_unit(clipped) / step
        self._groups = min(count // m, _MOST_GROUPS)
        self._state = seeded(int(rng.integers(2**63)))
        self._bank = rng.standard_normal(_BANK, dtype=np.float32)
        self._duals = np.zeros(count, np.float32)
        self._weights, self.steadiness = column_weights(clipped)
        self._counts = np.zeros(3, np.int64)
        self._memory = anneal_memory(self.levels, m, prices=count**2 <= _MOST_PRICES)

    @property
    def work(self) -> float:
        """Entries priced in a step."""
        return float(self._groups**2 * self.levels.shape[1])

    @property
    def effort(self) -> float:
        """The work, and the assignment in as many entries as could be priced meanwhile."""
        assignment: float = _ASSIGNMENT * self._groups**2.5
        return self.work + assignment

    @property
    def mark(self) -> int:
        """The best value, in half levels."""
        return int(self._counts[1])

    def sweep(self, noises: NDArray[np.float64]) -> None:
        """Do one step per noise."""
        anneal_sweep(
            self.levels,
            (self.stack.n, self.stack.m, self._groups),
            (noises * self._unit).astype(np.float32),
            self._weights,
            self._bank,
            self.order,
            self.best,
            self._duals,
            self._counts,
            self._state,
            self._memory,
        )


class SwapChain:
    """Annealing by swaps: as many proposals in a step as there are columns."""

    steadiness = 1.0
    assigns = False

    def __init__(self, stack: Stack, order: I64, rng: np.random.Generator) -> None:
        self.stack, self.order, self.best = stack, order, order.copy()
        self.levels, step = quantise(stack.columns, stack.n, stack.m)
        # wide groups tell columns apart less
        clipped = np.minimum(stack.columns, np.float32(255 * step))
        self._unit = _SWAP_NOISE * noise_unit(clipped) * np.sqrt(4 / stack.m) / step
        self._state = seeded(int(rng.integers(2**63)))
        self._chain: Any = swap_state(self.levels, order, stack.n, stack.m)

    @property
    def work(self) -> float:
        """Entries priced in a step, and about as much again for the holes of what is accepted."""
        return float(4 * self.levels.size * np.sqrt(self.stack.m))

    @property
    def effort(self) -> float:
        """The work: there is nothing else to do."""
        return self.work

    @property
    def mark(self) -> int:
        """The best value, in half levels."""
        return int(self._chain[4][1])

    def sweep(self, noises: NDArray[np.float64]) -> None:
        """Do one step per noise."""
        shape = (self.stack.n, self.stack.m)
        temperatures = noises * self._unit
        swap_anneal_sweep(
            self.levels, shape, temperatures, self.order, self.best, self._chain, self._state
        )


_SWAP_NOISE = 1.4  # a swap's temperature against the noise of an assignment


def noise_unit(columns: NDArray[np.float32]) -> float:
    """Return the spread of a column's value between groups, twice (in half levels of 1.0).

    The columns are clipped where the levels are: outliers must not heat the rest.
    """
    rows = columns.shape[1]
    mean = float(columns.mean(dtype=np.float64))
    return 2 * 1.25 * mean * float(np.sqrt(rows / 384))


def column_weights(columns: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Return each column's share of the noise, and how alike the columns are (1: all the same).

    The share is the root of the column's norm, about 1. Columns of unlike norms freeze at unlike
    noise, so the noise has to fall further.
    """
    norms = np.sqrt(np.einsum("cr,cr->c", columns, columns))
    mean = float(norms.mean())
    if mean == 0:
        return np.ones(len(columns), np.float32), 1.0
    relative = norms / mean
    return np.sqrt(relative).astype(np.float32), float(1 / (1 + 2 * relative.var()))
