"""Swap descent: all swaps of an order priced in one table, applied in batches, proven at the end.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.l1 import summax
from permsearch.kernels.quantise import quantise
from permsearch.kernels.sad import HAS_PSADBW, sad_matrix
from permsearch.kernels.swap import (
    NEVER,
    apply_swaps,
    best_partners,
    group_holes,
    improving_pairs,
    set_rows,
)
from permsearch.kernels.value import group_value, group_values, retained
from permsearch.solvers.base import Step

I64 = NDArray[np.int64]

_TOLERANCE = 1e-6  # a gain must exceed this share of a group's value, or rounding may cycle
_MOST_COLUMNS = 8192  # columns whose swaps are held at once: a table of 256 MB
_ROWS = 512  # rows of the table computed at once
_KICKED = 3  # groups shuffled by a kick; two are mostly shuffled back, many rarely gain
_LEAST_SCREEN = 64  # columns below which 8-bit screening costs more than it saves
_MOST_LEVELS = 1 << 28  # twice a group's sum of levels: gains must fit int32


def descend(
    columns: NDArray[np.float32],
    order: I64,
    n: int,
    m: int,
    *,
    screen: bool = True,
    kicks: int = 0,
    rng: np.random.Generator | None = None,
) -> Iterator[Step]:
    """Yield the order, changed in place, after each pass; the last one is 1-swap optimal."""
    blocks = _blocks(len(order) // m, max(1, _MOST_COLUMNS // m))
    if len(blocks) > 1:
        yield from _by_blocks(columns, order, n, m, blocks)
        return
    state = _State(columns, order, np.argsort(order), group_values(columns, order, n, m), n, m)
    fits = 2 * 255 * n * columns.shape[1] < _MOST_LEVELS
    groups = np.arange(len(state.current))
    if screen and HAS_PSADBW and fits and len(order) >= _LEAST_SCREEN:
        yield from _passes(state, _Table.of(_Bytes.of(columns, n, m), np.int32), groups)
    table = _Table.of(_Floats(columns), np.float32)
    yield from _passes(state, table, groups)
    if rng is not None and len(groups) > 1:
        yield from _kicks(state, table, kicks, rng)
    yield Step(0, state.order, state.current.sum(), converged=True)


def _blocks(groups: int, most: int) -> list[I64]:
    """Cut the groups into blocks of which two fit the table, or one block where all fit."""
    if groups <= most:
        return [np.arange(groups)]
    return np.array_split(np.arange(groups), -(-2 * groups // most))


def _by_blocks(
    columns: NDArray[np.float32], order: I64, n: int, m: int, blocks: list[I64]
) -> Iterator[Step]:
    """Descend over two blocks of groups at a time until a round over all pairs changes nothing."""
    pairs = list(combinations(blocks, 2))
    total = float(retained(columns, order, n, m))
    quiet = 0
    for a, b in cycle(pairs):
        places = (np.concatenate([a, b])[:, None] * m + np.arange(m)).ravel()
        chosen = order[places]
        others = total - float(retained(columns, chosen, n, m))
        for step in descend(columns[chosen], np.arange(places.size), n, m):
            order[places] = chosen[step.order]
            total = others + step.value if step.value is not None else total
            yield Step(step.steps, order, total)
        quiet = quiet + 1 if (order[places] == chosen).all() else 0
        if quiet == len(pairs):
            break
    yield Step(0, order, total, converged=True)


@dataclass(slots=True)
class _State:
    """An order, its inverse and the values of its groups, all changed in place."""

    columns: NDArray[np.float32]
    order: I64
    position: I64
    current: NDArray[np.float64]
    n: int
    m: int

    def copy(self) -> tuple[I64, I64, NDArray[np.float64]]:
        """Return copies of what changes."""
        return self.order.copy(), self.position.copy(), self.current.copy()

    def restore(self, kept: tuple[I64, I64, NDArray[np.float64]]) -> None:
        """Go back to what `copy` returned."""
        self.order[:], self.position[:], self.current[:] = kept


@dataclass(frozen=True, slots=True)
class _Floats:
    """Swap values in float32."""

    columns: NDArray[np.float32]

    def sums(self, holes: NDArray[Any], above: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the matrix and what to add to its rows and to its columns."""
        out = np.empty((len(holes), len(self.columns)), np.float32)
        extra = np.zeros(len(self.columns), np.float32)
        return summax(holes, self.columns, out), above.astype(np.float32), extra


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Twice the swap values in levels, int32: 2 max(y, a) = y + a + |y - a|."""

    columns: NDArray[np.uint8]
    mass: NDArray[np.int32]

    @classmethod
    def of(cls, columns: NDArray[np.float32], n: int, m: int) -> _Bytes:
        levels, _ = quantise(columns, n, m)
        return cls(levels, levels.sum(axis=1, dtype=np.int32))

    def sums(self, holes: NDArray[Any], above: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the matrix and what to add to its rows and to its columns."""
        out = np.empty((len(holes), len(self.columns)), np.int32)
        base = 2 * above.astype(np.int32) + holes.sum(axis=1, dtype=np.int32)
        return sad_matrix(holes, self.columns, out), base, self.mass


@dataclass(frozen=True, slots=True)
class _Table:
    """The values of all swaps, and scratch for each column's best one."""

    side: _Floats | _Bytes
    values: NDArray[Any]
    own: NDArray[Any]
    best: NDArray[Any]
    partner: I64

    @classmethod
    def of(cls, side: _Floats | _Bytes, kind: type[np.generic]) -> _Table:
        count = len(side.columns)
        values = np.empty((count, count), kind)
        own, best = np.empty((2, count), kind)
        return cls(side, values, own, best, np.empty(count, np.int64))

    @property
    def exact(self) -> bool:
        """Whether a pass that finds nothing proves that there is nothing."""
        return isinstance(self.side, _Floats)

    def refresh(self, state: _State, groups: I64) -> None:
        """Price the rows of the columns in the given groups anew."""
        m, columns = state.m, self.side.columns
        size = max(1, _ROWS // m)
        for first in range(0, len(groups), size):
            part = groups[first : first + size]
            holes = np.empty((len(part) * m, columns.shape[1]), columns.dtype)
            above = np.empty(len(holes))
            group_holes(columns, state.order, part, state.n, m, holes, above)
            rows = state.order.reshape(-1, m)[part].ravel()
            set_rows(self.values, self.own, rows, *self.side.sums(holes, above), m)


def _passes(state: _State, table: _Table, stale: I64) -> Iterator[Step]:
    """Yield the order after each pass, until none of the swaps that look best is confirmed."""
    while True:
        table.refresh(state, stale)
        touched = _pass(state, table)
        yield Step(1, state.order, state.current.sum())
        if not touched.any():
            return
        stale = np.flatnonzero(touched)


def _pass(state: _State, table: _Table) -> NDArray[np.bool_]:
    """Apply the best swaps of disjoint groups; return which groups changed."""
    best_partners(table.values, table.own, table.best, table.partner)
    least = _TOLERANCE * float(state.current.mean())
    # float32 may see a gain as smaller than it is, so it proposes from half the tolerance on
    screen = least / 2 if table.exact else 0.0
    left = np.flatnonzero(table.best > screen)
    left = left[np.argsort(-table.best[left], kind="stable")]
    right = table.partner[left]
    verdict, touched = _apply(state, left, right, least)
    if not table.exact:  # a refuted swap stays out until its row is priced anew
        table.values[left[verdict < 0], right[verdict < 0]] = NEVER
    elif left.size and not touched.any():  # not just the best swap of each column, but all
        pairs = sorted(improving_pairs(table.values, table.own, screen), key=lambda p: -p[2])
        found = np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2)
        touched = _apply(state, found[:, 0], found[:, 1], least)[1]
    return touched


def _apply(state: _State, left: I64, right: I64, least: float) -> tuple[Any, NDArray[np.bool_]]:
    limits = (state.n, state.m, least)
    verdict, touched = apply_swaps(
        state.columns, state.order, state.position, left, right, limits, state.current
    )
    return verdict, touched


def _kicks(state: _State, table: _Table, count: int, rng: np.random.Generator) -> Iterator[Step]:
    """Shuffle a few columns and descend again, ``count`` times; keep what ends higher."""
    m = state.m
    for _ in range(count):
        before, kept = state.current.sum(), state.copy()
        groups = rng.choice(len(state.current), min(_KICKED, len(state.current)), replace=False)
        within = [rng.choice(m, min(4, m), replace=False) for _ in groups]
        places = (groups[:, None] * m + np.array(within)).ravel()
        state.order[places] = state.order[rng.permutation(places)]
        state.position[state.order[places]] = places
        for g in groups:
            members = state.order[g * m : (g + 1) * m]
            state.current[g] = group_value(state.columns, members, state.n)
        yield from _passes(state, table, np.sort(groups))
        if state.current.sum() <= before:
            changed = (state.order != kept[0]).reshape(-1, m).any(axis=1)
            state.restore(kept)
            table.refresh(state, np.flatnonzero(changed))
