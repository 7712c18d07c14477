"""The search of a stack of bytes: hierarchical matching, then a swap descent, block by block.

The moves are those of the solver `matching`; what differs is the numbers they see. Everything is
decided by exact sums of levels, so the order found depends on the levels, the start and the seed
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import keep_whole
from permsearch.solvers.run import Step
from permsearch.streaming.device import Device
from permsearch.streaming.levels import Levels, SomeLevels
from permsearch.streaming.tables import SwapTable, kept, union_values

I64 = NDArray[np.int64]

_MOST_PARTS = 4096  # parts matched at once; more are dealt into blocks
_MOST_COLUMNS = 16384  # columns whose swaps are priced in one table


@dataclass(frozen=True, slots=True)
class CoarseOptions:
    """How far the search goes.

    Parameters
    ----------
    rounds
        How often all groups are cut in random halves and the halves matched anew.
    passes
        Passes of the swap descent at most; each swaps disjoint groups by one table of all swaps.
    """

    rounds: int = 2
    passes: int = 16

    def __post_init__(self) -> None:
        keep_whole(self, "rounds", "rounds", 0)
        keep_whole(self, "passes", "passes", 0)


def search_levels(
    levels: Levels,
    order: I64,
    pattern: tuple[int, int],
    rng: np.random.Generator,
    options: CoarseOptions,
    device: Device,
) -> Iterator[Step]:
    """Yield the order after each matching and each pass, the start's improvements included.

    Parameters
    ----------
    order : int64 array, shape (C,)
        The start.
    pattern : tuple
        n and m; m divides C.
    """
    n, m = pattern
    if m & (m - 1) == 0:
        parts = order[:, None]
        while parts.shape[1] < m:
            keep = max(1, n * 2 * parts.shape[1] // m)
            parts = matched(levels, parts, keep, device)
            yield Step(1, parts.ravel())
        order = parts.ravel()
    for _ in range(options.rounds if m % 2 == 0 else 0):
        halves = rng.permuted(order.reshape(-1, m), axis=1).reshape(-1, m // 2)
        order = matched(levels, halves, n, device).ravel()
        yield Step(1, order)
    yield from descend(levels, order, pattern, options.passes, device)


def matched(levels: Levels, parts: I64, n: int, device: Device) -> I64:
    """Return the parts joined two by two so that the unions' n largest sum to the most.

    Neighbours among the parts count as paired at present.
    """
    from permsearch.solvers._pairing import best_pairing

    blocks = -(-len(parts) // _MOST_PARTS)
    joined = []
    for block in range(blocks):
        # whole pairs are dealt to the blocks, so that the present pairing stays possible
        some = parts.reshape(len(parts) // 2, -1)[block::blocks].reshape(-1, parts.shape[1])
        values = union_values(levels, some, n, device)
        present = np.arange(len(some)).reshape(-1, 2)
        joined.append(some[best_pairing(values, present, exact=False)])
    return np.concatenate(joined).reshape(len(parts) // 2, -1)


def descend(
    levels: Levels, order: I64, pattern: tuple[int, int], passes: int, device: Device
) -> Iterator[Step]:
    """Yield the order after each pass of swaps, until none gains or the passes are done."""
    groups = len(order) // pattern[1]
    most = _MOST_COLUMNS // pattern[1]
    if groups <= most:
        yield from _passes(levels, order, pattern, passes, device)
        return
    parts = np.array_split(np.arange(groups), -(-2 * groups // most))
    for a, b in combinations(parts, 2):
        rows = np.concatenate([a, b])
        places = (rows[:, None] * pattern[1] + np.arange(pattern[1])).ravel()
        chosen = order[places]
        some = SomeLevels(levels, chosen)
        for step in _passes(some, np.arange(places.size), pattern, passes, device):
            order = order.copy()
            order[places] = chosen[step.order]
            yield Step(step.steps, order)


def _passes(
    levels: Levels, order: I64, pattern: tuple[int, int], passes: int, device: Device
) -> Iterator[Step]:
    from permsearch.kernels.swap import best_partners

    n, m = pattern
    order = order.copy()
    table = SwapTable(levels, n, m, device)
    best = np.empty(levels.columns, table.values.dtype)
    partner = np.empty(levels.columns, np.int64)
    stale = np.arange(len(order) // m)
    for _ in range(passes):
        table.refresh(order, stale)
        best_partners(table.values, table.own, best, partner)
        stale = swap_disjoint(order, best, partner, m)
        yield Step(1, order.copy())
        if not stale.size:
            return


def swap_disjoint(order: I64, best: NDArray[Any], partner: I64, m: int) -> I64:
    """Apply the swaps that gain, the best first, no group twice; return the groups that changed.

    Gains are exact while a group is as it was when it was priced, so none is checked again.
    """
    left = np.flatnonzero(best > 0)
    left = left[np.argsort(-best[left], kind="stable")]
    position = np.argsort(order)
    touched = np.zeros(len(order) // m, np.bool_)
    for a, b in zip(left.tolist(), partner[left].tolist(), strict=True):
        p, q = position[a], position[b]
        if not (touched[p // m] or touched[q // m]):
            order[p], order[q] = b, a
            touched[p // m] = touched[q // m] = True
    return np.flatnonzero(touched)


def value_of(levels: Levels, order: I64, pattern: tuple[int, int]) -> int:
    """Return what an order keeps, in levels."""
    return int(kept(levels, order, *pattern).sum())
