"""Deal columns by mass, then reassign them slot by slot: the method published with RIA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from permsearch.checks import keep_whole
from permsearch.solvers.base import Budget, ColumnSolver, Step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from permsearch.stack import Stack

_TOLERANCE = 1e-6  # a gain must exceed this share of a group's value, or rounding may cycle


@dataclass(frozen=True, slots=True)
class Deal(ColumnSolver):
    """Sort columns by mass, deal them out in serpentine order, then sweep over the slots.

    A step is one slot: the column in that place is taken out of every group, and all of them are
    given back by an exact linear assignment. It ends when no slot gains. The deal does not
    depend on the start, but what is returned is never worse than it.

    Parameters
    ----------
    sweeps
        Sweeps over all slots at most; the published method does one. None: until no slot gains.

    References
    ----------
    Zhang et al.: Plug-and-Play: an efficient post-training pruning method for large language
    models, ICLR 2024.
    """

    sweeps: int | None = None

    def __post_init__(self) -> None:
        if self.sweeps is not None:
            keep_whole(self, "sweeps", "sweeps", 0)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        from permsearch.kernels.value import group_values

        del order, rng, budget
        m = stack.m
        order = dealt(stack.columns.sum(axis=1, dtype=np.float64), m)
        current = group_values(stack.columns, order, stack.n, m)
        yield Step(0, order, current.sum())
        slot = quiet = 0
        while quiet < m and (self.sweeps is None or slot < self.sweeps * m):
            trial = reassigned(stack, order, slot % m)
            values = group_values(stack.columns, trial, stack.n, m)
            quiet += 1
            if values.sum() > current.sum() + _TOLERANCE * values.mean():
                order, current, quiet = trial, values, 0
            yield Step(1, order, current.sum())
            slot += 1
        yield Step(0, order, current.sum(), converged=quiet == m)


def dealt(mass: NDArray[np.float64], m: int) -> NDArray[np.int64]:
    """Return the order that deals columns, heaviest first, to the groups and back again."""
    rounds = np.argsort(-mass, kind="stable").reshape(m, -1)
    rounds[1::2] = rounds[1::2, ::-1]
    return np.ascontiguousarray(rounds.T).ravel()


def reassigned(stack: Stack, order: NDArray[np.int64], slot: int) -> NDArray[np.int64]:
    """Return the order with the columns in one slot of every group assigned anew, exactly."""
    from scipy.optimize import linear_sum_assignment

    from permsearch.kernels.holes import fill_hole
    from permsearch.kernels.l1 import summax

    columns, n, m = stack.columns, stack.n, stack.m
    groups = order.reshape(-1, m)
    taken = np.ascontiguousarray(groups[:, slot])
    rest = np.delete(groups, slot, axis=1)
    rows = columns.shape[1]
    levels = np.empty((m, rows), np.float32)
    carry = np.empty(rows, np.float32)
    holes = np.empty((len(groups), rows), np.float32)
    for hole, others in zip(holes, rest, strict=True):
        fill_hole(columns, others, n, levels, carry, hole)
    # what else a group keeps is the same whichever column comes, so it can be left out
    value = np.empty((len(groups), len(groups)), np.float32)
    summax(holes, columns[taken], value)
    # a column's own level does not matter either, and scipy is faster without it
    cost = value.max(axis=0) - value
    chosen = linear_sum_assignment(cost)[1]
    trial = groups.copy()
    trial[:, slot] = taken[chosen]
    return trial.ravel()
