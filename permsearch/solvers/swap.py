"""Greedy channel swaps down to an order that no swap of two columns improves, proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.solvers.base import Budget, Step, column_obstacle, solve_columns
from permsearch.stop import Never, StoppingCriterion

if TYPE_CHECKING:
    from permsearch.problem import Problem
    from permsearch.result import SearchResult
    from permsearch.stack import Stack

    I64 = NDArray[np.int64]

_TOLERANCE = 1e-6  # a gain must exceed this share of a group's value, or rounding may cycle
_MOST_COLUMNS = 8192  # columns whose swaps are held at once: a table of 256 MB
_ROWS = 512  # rows of the table computed at once
_LEAST_SCREEN = 64  # columns below which 8-bit screening costs more than it saves
_MOST_LEVELS = 1 << 28  # twice a group's sum of levels: gains must fit int32


@dataclass(frozen=True, slots=True)
class Swap:
    """Swap columns of different groups, best first, until provably no swap gains.

    All swaps are priced at once from the holes the columns leave (one L1 distance matrix). A
    step is one batched pass: the best partner of every column, then the swaps in order of their
    gain wherever both groups are still fresh, each confirmed in float64. Passes over 8-bit
    columns come first where the processor has the instruction for them; float32 passes follow,
    and the last one proves that no swap gains more than 1e-6 of a group's value. Beyond 8192
    columns the groups are searched in blocks, two at a time, until no pair of blocks improves.
    """

    @property
    def default_stop(self) -> StoppingCriterion:
        """Run until no swap gains."""
        return Never()

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""
        return column_obstacle(problem)

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""
        return solve_columns(self, problem, stop=stop, start=start, seed=seed)

    def _run(
        self, stack: Stack, order: I64, rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        del rng, budget
        yield from descend(stack.columns, order, stack.n, stack.m, screen=True)


def polish(columns: NDArray[np.float32], order: I64, n: int, m: int) -> I64:
    """Return an order that no swap improves, reached from ``order`` by float32 passes alone."""
    for step in descend(columns, order.copy(), n, m, screen=False):
        order = step.order
    return order


def descend(
    columns: NDArray[np.float32], order: I64, n: int, m: int, *, screen: bool
) -> Iterator[Step]:
    """Yield the order after each pass of swaps; the last one is 1-swap optimal."""
    blocks = _blocks(len(order) // m, max(1, _MOST_COLUMNS // m))
    if len(blocks) == 1:
        yield from _descend(columns, order, n, m, screen=screen)
        return
    pairs = [(a, b) for i, a in enumerate(blocks) for b in blocks[i + 1 :]]
    quiet = 0
    while quiet < len(pairs):
        for a, b in pairs:
            quiet = quiet + 1
            places = (np.concatenate([a, b])[:, None] * m + np.arange(m)).ravel()
            chosen = order[places]
            local = np.arange(places.size)
            for step in _descend(columns[chosen], local, n, m, screen=screen):
                if step.steps and not step.converged:
                    quiet = 0
                order[places] = chosen[step.order]
                yield Step(step.steps, order)
            if quiet >= len(pairs):
                break
        screen = False
    yield Step(0, order, converged=True)


def _blocks(groups: int, most: int) -> list[I64]:
    """Cut the groups into blocks of which two fit the table, or one block where all fit."""
    if groups <= most:
        return [np.arange(groups)]
    return np.array_split(np.arange(groups), -(-2 * groups // most))


def _descend(
    columns: NDArray[np.float32], order: I64, n: int, m: int, *, screen: bool
) -> Iterator[Step]:
    from permsearch.kernels.sad import HAS_PSADBW
    from permsearch.kernels.value import group_values

    state = _State(columns, order, np.argsort(order), group_values(columns, order, n, m), n, m)
    fits = 2 * 255 * n * columns.shape[1] < _MOST_LEVELS
    if screen and HAS_PSADBW and fits and len(order) >= _LEAST_SCREEN:
        yield from _passes(state, _Bytes.of(columns, n, m), exact=False)
    yield from _passes(state, _Floats(columns), exact=True)


@dataclass(slots=True)
class _State:
    """An order, its inverse and the values of its groups, all changed in place."""

    columns: NDArray[np.float32]
    order: I64
    position: I64
    current: NDArray[np.float64]
    n: int
    m: int


@dataclass(frozen=True, slots=True)
class _Floats:
    """Swap values in float32."""

    columns: NDArray[np.float32]

    def sums(self, holes: NDArray[Any], above: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the matrix and what to add to its rows and to its columns."""
        from permsearch.kernels.l1 import summax

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
        from permsearch.kernels.quantise import quantise

        levels, _ = quantise(columns, n, m)
        return cls(levels, levels.sum(axis=1, dtype=np.int32))

    def sums(self, holes: NDArray[Any], above: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Return the matrix and what to add to its rows and to its columns."""
        from permsearch.kernels.sad import sad_matrix

        out = np.empty((len(holes), len(self.columns)), np.int32)
        base = 2 * above.astype(np.int32) + holes.sum(axis=1, dtype=np.int32)
        return sad_matrix(holes, self.columns, out), base, self.mass


def _passes(state: _State, side: _Floats | _Bytes, *, exact: bool) -> Iterator[Step]:
    """Yield the order after each pass, until none of the swaps that look best is confirmed."""
    from permsearch.kernels.swap import NEVER, apply_swaps, best_partners

    count = len(state.order)
    kind = np.float32 if exact else np.int32
    values, own = np.empty((count, count), kind), np.empty(count, kind)
    best, partner = np.empty(count, kind), np.empty(count, np.int64)
    least = _TOLERANCE * float(state.current.mean())
    limits = (state.n, state.m, least)
    # float32 may see a gain as smaller than it is, so it proposes from half the tolerance on
    screen = least / 2 if exact else 0.0
    stale = np.arange(len(state.current))
    while True:
        _refresh(state, side, stale, values, own)
        best_partners(values, own, best, partner)
        left = np.flatnonzero(best > screen)
        left = left[np.argsort(-best[left], kind="stable")]
        right = partner[left]
        verdict, touched = apply_swaps(
            state.columns, state.order, state.position, left, right, limits, state.current
        )
        if exact and left.size and not touched.any():
            touched = _remaining(state, values, own, screen, limits)
        if not touched.any():
            yield Step(1, state.order, state.current.sum(), converged=exact)
            return
        if not exact:  # a refuted swap stays out until its row is priced anew
            values[left[verdict < 0], right[verdict < 0]] = NEVER
        yield Step(1, state.order, state.current.sum())
        stale = np.flatnonzero(touched)


def _remaining(
    state: _State, values: NDArray[Any], own: NDArray[Any], screen: float, limits: Any
) -> Any:
    """Try every swap that may gain, not just the best of each column; return what changed."""
    from permsearch.kernels.swap import apply_swaps, improving_pairs

    pairs = sorted(improving_pairs(values, own, screen), key=lambda pair: -pair[2])
    left, right = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    return apply_swaps(
        state.columns, state.order, state.position, left, right, limits, state.current
    )[1]


def _refresh(
    state: _State, side: _Floats | _Bytes, groups: I64, values: NDArray[Any], own: NDArray[Any]
) -> None:
    """Price the rows of the columns in the given groups anew."""
    from permsearch.kernels.swap import group_holes, set_rows

    n, m = state.n, state.m
    size = max(1, _ROWS // m)
    for first in range(0, len(groups), size):
        part = groups[first : first + size]
        holes = np.empty((len(part) * m, side.columns.shape[1]), side.columns.dtype)
        above = np.empty(len(holes))
        group_holes(side.columns, state.order, part, n, m, holes, above)
        rows = state.order.reshape(-1, m)[part].ravel()
        set_rows(values, own, rows, *side.sums(holes, above), m)
