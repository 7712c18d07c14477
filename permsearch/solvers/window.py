"""Exhaustive re-splitting of a few groups at a time: the published stripe-group search.

Pool and Yu, "Channel Permutations for N:M Sparsity", NeurIPS 2021: price every way to share the
columns of a few groups out again, apply the best ones greedily to disjoint groups, price again
what was touched, until nothing gains; then swap two random columns and go on (a bounded
regression).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import comb, factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.checks import keep_whole
from permsearch.solvers.base import ColumnSolver, Step, column_obstacle
from permsearch.stack import group_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from permsearch.problem import Problem
    from permsearch.solvers.base import Budget
    from permsearch.stack import Stack

_MOST_SPLITS = 7000  # re-splits of one window: 6435 for two groups of 8, 5775 for three of 4
_MOST_GROUPS = 6  # of a window, before splits are counted: six groups of 2 have 10,395 already
_MOST_SETS = 350_000  # windows of more than two groups: all of 12 columns among 512 are 341,376
_SWEEP = 100_000_000  # subset values times rows in one sweep, some ten milliseconds
_TOLERANCE = 1e-6  # a gain must exceed this share of a group's value, or rounding may cycle
_JOINT_ESCAPES = 10  # the joint pass after halving escapes this many times as often


def _splits(m: int, k: int) -> int:
    """Return the number of ways to share k*m columns out over k groups of m."""
    orderings: int = factorial(m) ** k * factorial(k)
    return factorial(k * m) // orderings


@dataclass(frozen=True, slots=True)
class Window(ColumnSolver):
    """Re-split every set of a few groups exhaustively until no re-split gains.

    A step is one set of groups priced in all its re-splits (35 for 8 columns of 2:4, 5775 for
    12). Where the windows are wider than two groups and would number more than 350,000 (12
    columns: beyond 512), the halves are searched on their own, each halved again as needed, and
    a joint pass over pairs of groups with ten times the escapes follows, as published. Unlike
    the published code, thresholds are relative and the best state is what is returned.

    Parameters
    ----------
    columns
        Columns in a window; 8 and 12 are customary for 2:4. At least two groups are taken, and
        not so many that they have more than 7000 re-splits.
    escapes
        How often to go on from a local optimum by swapping two random columns.
    """

    columns: int = 8
    escapes: int = 0

    def __post_init__(self) -> None:
        keep_whole(self, "columns", "columns", 2)
        keep_whole(self, "escapes", "escapes", 0)

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""
        reason = column_obstacle(problem)
        if reason is not None:
            return reason
        for m in group_sizes(problem):
            if _splits(m, 2) > _MOST_SPLITS:
                return (
                    f"two groups of {m} columns have {_splits(m, 2)} re-splits, more than "
                    f"{_MOST_SPLITS}; use solver 'swap'."
                )
        return None

    def _groups(self, m: int) -> int:
        """Return the number of groups in a window: what fits, less where re-splits are too many."""
        k = max(2, min(self.columns // m, _MOST_GROUPS))
        while k > 2 and _splits(m, k) > _MOST_SPLITS:
            k -= 1
        return k

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        search = _Search.begin(stack, order, rng, budget)
        k = min(self._groups(stack.m), search.current.size)
        escapes = self.escapes
        parts = _parts(0, search.current.size, k)
        if len(parts) > 1:
            for part in parts:
                yield from search.converge(part, k, escapes)
                search.restore()
            k, escapes = 2, escapes * _JOINT_ESCAPES
        yield from search.converge(range(search.current.size), k, escapes)
        search.restore()
        yield Step(0, search.order, search.current.sum(), converged=True)


def _parts(first: int, last: int, k: int) -> list[range]:
    """Halve the groups first .. last-1 until the sets of k in each part are few enough."""
    if k == 2 or comb(last - first, k) <= _MOST_SETS:
        return [range(first, last)]
    middle = (first + last) // 2
    return _parts(first, middle, k) + _parts(middle, last, k)


def _sets(groups: range, k: int) -> NDArray[np.int32]:
    """Return every set of k of the groups, in lexicographic order."""
    count = comb(len(groups), k)
    flat = (g for chosen in combinations(groups, k) for g in chosen)
    return np.fromiter(flat, dtype=np.int32, count=count * k).reshape(count, k)


@dataclass(slots=True)
class _Search:
    """The state of one run on one stack."""

    stack: Stack
    order: NDArray[np.int64]
    rng: np.random.Generator
    budget: Budget
    current: NDArray[np.float64]
    best: float = -1.0
    best_order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def begin(
        cls, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> _Search:
        from permsearch.kernels.value import group_values

        return cls(stack, order, rng, budget, group_values(stack.columns, order, stack.n, stack.m))

    def restore(self) -> None:
        """Go back to the best order seen."""
        from permsearch.kernels.value import group_values

        self.order = self.best_order.copy()
        self.current = group_values(self.stack.columns, self.order, self.stack.n, self.stack.m)

    def converge(self, groups: range, k: int, escapes: int) -> Iterator[Step]:
        """Descend over all windows of k of the groups, then escape and descend again."""
        sets = _sets(groups, k)
        gain = np.zeros(len(sets))
        split = np.zeros(len(sets), np.int32)
        tables = _Tables.of(self.stack, k)
        stale = np.arange(len(sets))
        for attempt in range(escapes + 1):
            if attempt:
                stale = _touching(sets, self._escape(sets))
            yield from self._descend(sets, gain, split, tables, stale)
            if self.current.sum() > self.best:
                self.best, self.best_order = self.current.sum(), self.order.copy()

    def _descend(
        self,
        sets: NDArray[np.int32],
        gain: NDArray[np.float64],
        split: NDArray[np.int32],
        tables: _Tables,
        stale: NDArray[np.int64],
    ) -> Iterator[Step]:
        from permsearch.kernels.splits import apply_splits

        stack = self.stack
        least = _TOLERANCE * self.current.mean()
        while stale.size:
            for chunk in self._sweeps(stale, tables):
                gain[chunk], split[chunk] = tables.price(stack, self.order, sets[chunk])
                if chunk[-1] != stale[-1]:
                    yield Step(chunk.size, self.order, self.current.sum())
            ranking = np.flatnonzero(gain > least)
            ranking = ranking[np.argsort(-gain[ranking], kind="stable")]
            found = (gain, split, ranking)
            touched = apply_splits(
                stack.columns, self.order, sets, stack.n, tables.splits, found, self.current, least
            )
            stale = _touching(sets, touched)
            yield Step(chunk.size, self.order, self.current.sum())

    def _sweeps(self, stale: NDArray[np.int64], tables: _Tables) -> Iterator[NDArray[np.int64]]:
        """Cut the windows to price into sweeps that the budget allows."""
        size = max(1, _SWEEP // (tables.subsets * self.stack.columns.shape[1]))
        done = 0
        while done < stale.size:
            chunk = stale[done : done + max(1, self.budget.sweep(size))]
            done += chunk.size
            yield chunk

    def _escape(self, sets: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Swap a column of one group with one of another; return which groups changed."""
        m = self.stack.m
        pair = self.rng.choice(sets[self.rng.integers(len(sets))], 2, replace=False)
        p, q = pair.astype(np.int64) * m + self.rng.integers(m, size=2)
        self.order[[p, q]] = self.order[[q, p]]
        touched = np.zeros(self.current.size, np.bool_)
        touched[pair] = True
        self._revalue(pair)
        return touched

    def _revalue(self, groups: NDArray[np.int32]) -> None:
        from permsearch.kernels.value import group_value

        stack = self.stack
        for g in groups:
            members = self.order[g * stack.m : (g + 1) * stack.m]
            self.current[g] = group_value(stack.columns, members, stack.n)


def _touching(sets: NDArray[np.int32], touched: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the windows that hold a group that changed."""
    return np.flatnonzero(touched[sets].any(axis=1))


@dataclass(frozen=True, slots=True)
class _Tables:
    """What the pricing of windows of k groups reads."""

    plan: NDArray[np.int64]
    splits: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, stack: Stack, k: int) -> _Tables:
        from permsearch.kernels.splits import split_table
        from permsearch.kernels.subsets import subset_plan

        two_of_four = (stack.n, stack.m) == (2, 4)
        plan = subset_plan(4 * k) if two_of_four else np.empty((0, 0), np.int64)
        return cls(plan, split_table(stack.m, k))

    @property
    def subsets(self) -> int:
        """Number of group values behind the price of one window."""
        return len(self.splits[0])

    def price(
        self, stack: Stack, order: NDArray[np.int64], sets: NDArray[np.int32]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the gain and the row of the best re-split of each window."""
        from permsearch.kernels.splits import best_splits

        tables = (self.plan, self.splits[1])
        return best_splits(stack.columns, order, sets, stack.n, stack.m, tables)
