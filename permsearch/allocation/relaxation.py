"""The linear relaxation of multiple choice: a bound, prices of the budgets, a good choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Choice: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Options of all layers one after another.

    Attributes
    ----------
    values
        float64 (options,), scaled so that the largest lies in [0.5, 1).
    costs
        float64 (budgets, options).
    first
        int64 (layers + 1,): where each layer's options begin, and the end.
    budgets
        float64 (budgets,): what the costs of a choice may sum to.
    scale
        What a value of 1.0 stands for.
    """

    values: Floats
    costs: Floats
    first: NDArray[np.int64]
    budgets: Floats
    scale: float = 1.0

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.first) - 1

    def of(self, layer: int) -> slice:
        """Return where a layer's options stand."""
        return slice(int(self.first[layer]), int(self.first[layer + 1]))

    def value(self, choice: Choice) -> float:
        """Return the value of a choice: positions of the options taken, one a layer."""
        return float(self.values[choice].sum())

    def fits(self, choice: Choice) -> bool:
        """Decide whether a choice keeps every budget, up to rounding."""
        return bool((self.costs[:, choice].sum(axis=1) <= self.allowed).all())

    @property
    def allowed(self) -> Floats:
        """Budgets with room for the rounding of sums."""
        return self.budgets * (1 + 1e-9)

    def least(self) -> Floats:
        """Return the smallest sum of each cost, taken by itself."""
        sums: Floats = np.minimum.reduceat(self.costs, self.first[:-1], axis=1).sum(axis=1)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """What the linear relaxation says.

    Attributes
    ----------
    bound
        No choice within the budgets is worth more.
    losses
        float64 (options,), >= 0: a choice is worth at most `bound` less the losses of its options.
    choice
        A choice within the budgets, or None where rounding found none.
    """

    bound: float
    losses: Floats
    choice: Choice | None


def relax(table: Table) -> Relaxed | None:
    """Return the bound, the losses and a rounded choice; None when nothing fits the budgets.

    Source: Lagrangian bound and rounding of the multiple-choice knapsack, as in Kellerer, Pferschy
    and Pisinger, Knapsack Problems, chapter 11. The prices come from HiGHS; the bound is computed
    anew from them, so it holds whatever they are.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    count = len(table.values)
    owner = np.repeat(np.arange(table.layers), np.diff(table.first))
    ones: Any = csr_array((np.ones(count), (owner, np.arange(count))), shape=(table.layers, count))
    scale = np.where(table.budgets > 0, table.budgets, 1.0)
    # an option that exceeds a budget by itself is part of no choice, and its cost may be huge
    usable = (table.costs <= table.allowed[:, None]).all(axis=0)
    limits: Any = np.stack([np.zeros(count), usable.astype(np.float64)], axis=1)
    solved: Any = linprog(
        -table.values,
        A_ub=np.where(usable, table.costs, 0.0) / scale[:, None],
        b_ub=table.budgets / scale,
        A_eq=ones,
        b_eq=np.ones(table.layers),
        bounds=limits,
        method="highs",
    )
    if solved.status != 0:
        return None
    prices = np.maximum(0.0, -solved.ineqlin.marginals) / scale
    reduced = np.where(usable, table.values - prices @ np.where(usable, table.costs, 0.0), -np.inf)
    best = np.maximum.reduceat(reduced, table.first[:-1])
    bound = float(best.sum() + prices @ table.budgets)
    losses = np.repeat(best, np.diff(table.first)) - reduced
    return Relaxed(_up(bound), losses, _rounded(table, solved.x, prices))


def _up(bound: float) -> float:
    return bound + 1e-12 * abs(bound)


def _rounded(table: Table, share: Floats, prices: Floats) -> Choice | None:
    """Return a choice near a fractional one: its largest shares, the split layers made cheap."""
    choice = np.empty(table.layers, np.int64)
    for layer in range(table.layers):
        options = table.of(layer)
        part = share[options]
        if part.max() > 1 - 1e-6:
            choice[layer] = options.start + int(part.argmax())
            continue
        weights = prices if prices.any() else np.ones(len(prices))
        choice[layer] = options.start + int((weights @ table.costs[:, options]).argmin())
    return improved(table, choice) if table.fits(choice) else None


def improved(table: Table, choice: Choice) -> Choice:
    """Raise the value of a choice by changes of one layer, the largest gain first."""
    choice = choice.copy()
    owner = np.repeat(np.arange(table.layers), np.diff(table.first))
    while True:
        left = table.allowed - table.costs[:, choice].sum(axis=1)
        gains = table.values - table.values[choice][owner]
        more = table.costs - table.costs[:, choice][:, owner]
        gains = np.where((more <= left[:, None]).all(axis=0), gains, 0.0)
        best = int(gains.argmax())
        if gains[best] <= 1e-12 * max(1.0, abs(float(table.values[best]))):
            return choice
        choice[owner[best]] = best
