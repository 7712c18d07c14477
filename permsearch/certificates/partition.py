"""The set-partitioning limit of a stack, by column generation without a linear program.

For any duals u, one a column, no partition into groups keeps more than

    sum u + min over lam of [ C / m lam + sum over all groups S of max(0, f(S) - u(S) - lam) ],

since it has C / m groups, each used once. Good duals come from a pool of promising groups
(`pool`, `duals`); what makes the limit a proof is one pricing of all groups (`pricing`). A pricing
with room to spare (all groups above -delta) also covers other duals u': a group it did not find
exceeds them by no more than the m largest of u - u' less delta. So the duals are refined after it
without another pricing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from permsearch.certificates.duals import cooled
from permsearch.certificates.pool import Pool
from permsearch.certificates.pricing import Found, Pricer, valued
from permsearch.limits.partition import dual_value, rounded
from permsearch.stack import Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

# In units of the scatter of groups around rough duals:
_HOT, _COLD = 0.25, 0.02  # temperatures of the first duals
_REACH = 1.0  # how far below zero the last pool goes
_MARGIN = 0.6  # how far below zero a pricing looks
_SPAN = 6.0  # reach of the pool in temperatures
_ENOUGH = 50  # new groups below which a pool is not grown again
_GROWTHS = 3
_COOLINGS = 3  # halvings of the temperature after each pricing
_EXCHANGES = 16  # random exchanges for each column
_GAIN = 3e-6  # relative gain of a pricing below which none follows
MOST_GROUPS = 5e12  # beyond them no pricing is tried
_MOST_PREFIXES = 4e6
_MOST_WIDE = 2.5e6  # groups of more than four columns: their prefixes cost more than they do


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """What no order of a stack exceeds, in the stack's units, and why.

    Attributes
    ----------
    value
        The limit, rounded up.
    duals : float64 array, shape (C,)
    level
        The lam of the limit: `found` lists every group worth more than it beyond its duals.
    found
        Those groups.
    pricings
        How often all groups were priced.
    pool
        The limit that the groups known so far would allow: where more rounds lead, about.
    slack
        How far the value may lie above what these duals prove with all groups known and without
        rounding.
    """

    value: float
    duals: Floats
    level: float
    found: Found
    pricings: int = 0
    pool: float = 0.0
    slack: float = 0.0


def obstacle(stack: Stack) -> str | None:
    """Say why not all groups of a stack can be priced, or None when they can."""
    count, m = len(stack.columns), stack.m
    most = MOST_GROUPS if m <= 4 else _MOST_WIDE
    if comb(count, m) > most or comb(count - 2, m - 2) > _MOST_PREFIXES:
        return f"{comb(count, m):.2g} groups of {m} out of {count} columns are too many to price"
    return None


def limit_of(stack: Stack, duals: Floats, found: Found, least: float) -> tuple[float, float, float]:
    """Return the limit that duals prove, rounded up, its level, and its slack.

    Parameters
    ----------
    stack, duals
    found
        All groups that exceed the duals by more than `least`, others do no harm.
    least
        The level is at least this.
    """
    groups = len(stack.columns) // stack.m
    worth = found.reduced(duals)
    value, level = dual_value(duals, worth, groups, least)
    limit = rounded(value, duals, stack.n * stack.columns.shape[1] + 4 * stack.m)
    # had the pricing looked deeper, the level might be lower: but not below that of these groups
    lower = float(worth.min()) if len(worth) >= groups else least
    deep, _ = dual_value(duals, worth, groups, min(least, lower))
    return limit, level, limit - min(value, deep)


def limits(
    stack: Stack, order: I64, halted: Callable[[], bool], *, screen: str = "auto"
) -> Iterator[Limit]:
    """Yield ever lower limits of a stack, one after each pricing of all groups.

    Parameters
    ----------
    stack
        One without an `obstacle`.
    order : int64 array, shape (C,)
        A good order: its groups start the pool.
    halted
        Asked every now and then whether to give up.
    screen
        See `Pricer`.
    """
    search = _Search(stack, order, screen)
    heat = search.warm_up(halted)
    pricings = 0
    best: Limit | None = None
    while not halted():
        margin = search.pricer.margin(search.duals, _MARGIN * search.unit)
        priced = search.pricer.above(search.duals, -margin, halted=halted)
        if priced is None:
            return
        pricings += 1
        some = search.refined(*priced, heat, pricings)
        heat /= 2**_COOLINGS
        if best is None or some.value < best.value:
            gain = np.inf if best is None else best.value - some.value
            best = some
            yield best
            if gain < _GAIN * best.value:
                return
        else:
            return


class _Search:
    """Duals and the pool they are fitted to."""

    def __init__(self, stack: Stack, order: I64, screen: str) -> None:
        self.stack = stack
        groups = np.sort(order.reshape(-1, stack.m), axis=1)
        self.duals, self.unit = first_duals(stack, groups)
        self.pricer = Pricer(stack, screen)
        self.pool = Pool(self.pricer, groups)

    def warm_up(self, halted: Callable[[], bool]) -> float:
        """Fit the duals to a growing pool at falling temperatures; return the last one."""
        heat = _HOT * self.unit
        while not halted():
            cold = heat / 2 < _COLD * self.unit
            reach = max(_SPAN * heat, _REACH * self.unit if cold else 0.0)
            for _ in range(_GROWTHS):
                new = self.pool.grow(self.duals, reach)
                found = self.pool.found
                self.duals = cooled(found.values, found.groups, self.duals, heat)
                self.pool.prune(self.duals, max(3 * reach, _REACH * self.unit))
                if new < _ENOUGH or halted():
                    break
            if cold:
                break
            heat /= 2
        return heat

    def refined(self, priced: Found, threshold: float, heat: float, pricings: int) -> Limit:
        """Return the best limit that a pricing proves, moving the duals away from it."""
        old = self.duals
        value, level, slack = limit_of(self.stack, old, priced, threshold)
        best = Limit(value, old, level, priced, pricings, slack=slack)
        self.pool.add(priced)
        for _ in range(_COOLINGS):
            heat /= 2
            found = self.pool.found
            self.duals = cooled(found.values, found.groups, self.duals, heat)
            shift = float(np.sort(old - self.duals)[-self.stack.m :].sum())
            value, level, slack = limit_of(self.stack, self.duals, found, threshold + shift)
            if value < best.value:
                best = Limit(value, self.duals, level, found, pricings, slack=slack)
        found, duals = best.found, best.duals
        kept = found.where(found.reduced(duals) > best.level)
        pool = float(self.duals.sum() + np.maximum(0, self.pool.found.reduced(self.duals)).sum())
        return replace(best, found=kept, pool=pool)


def first_duals(stack: Stack, groups: I64) -> tuple[Floats, float]:
    """Return rough duals from a good order's groups, and how much values scatter around them.

    A column's dual is what it adds to a group, fitted by least squares to the order's groups
    with one column exchanged at random.
    """
    count, m = len(stack.columns), stack.m
    rng = np.random.default_rng(0)
    draws = np.tile(groups, (_EXCHANGES * m, 1))
    new = rng.integers(count, size=len(draws))
    draws[np.arange(len(draws)), rng.integers(m, size=len(draws))] = new
    draws = np.sort(draws, axis=1)
    draws = draws[(np.diff(draws, axis=1) > 0).all(axis=1)]
    drawn = valued(stack, draws)
    normal, sums = np.zeros((count, count)), np.zeros(count)
    np.add.at(normal, (draws[:, :, None], draws[:, None, :]), 1.0)
    np.add.at(sums, draws, drawn.values[:, None])
    normal[np.diag_indices(count)] += 1e-3
    duals = np.linalg.solve(normal, sums).astype(np.float64)
    spread = 1.5 * float(np.median(np.abs(drawn.reduced(duals))))
    score = float(valued(stack, groups).values.sum())
    duals += (score - duals.sum()) / count
    return duals, max(spread, 1e-9 * score / count, 1e-300)
