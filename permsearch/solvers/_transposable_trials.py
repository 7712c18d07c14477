"""Disjoint swaps for transposable N:M with blocks of any size, tried many at a time.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.transposable import block_levels
from permsearch.kernels.transposable_trials import promises
from permsearch.patterns import TransposableNM
from permsearch.solvers._axis_annealing import free_axes
from permsearch.solvers.matrices import MatrixPart
from permsearch.solvers.run import Step

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_GROUPS = 32  # that take part in a trial, at most
_STAY = 8  # trials on one axis before the other's turn


class _Trials:
    """One axis being moved: its groups' blocks, their values and prices."""

    def __init__(self, items: NDArray[np.float32], n: int, m: int, orders: tuple[I64, I64]) -> None:
        self.items, self.n, self.m = items, n, m  # items (count, taps, places of the other axis)
        self.order, self.across = orders
        self.values, self.levels = self._solved(np.arange(len(self.order) // m))

    def _solved(self, groups: I64) -> tuple[F64, F64]:
        """Return values (G,) and prices (taps * blocks, G, m) of groups under the orders."""
        m = self.m
        members = self.order.reshape(-1, m)[groups]
        columns = self.items[members.ravel()][:, :, self.across]
        cut = columns.reshape(len(groups), m, -1, m)  # group, column, block, row
        blocks = np.ascontiguousarray(cut.transpose(2, 0, 3, 1)).reshape(-1, m, m)
        values, levels = np.empty(len(blocks)), np.empty((len(blocks), m))
        block_levels(blocks, self.n, values, levels)
        shape = (-1, len(groups))
        return values.reshape(shape).sum(axis=0), levels.reshape(*shape, m)

    def trial(self, rng: np.random.Generator) -> None:
        """Try the swaps that promise most, one place of every group at most; keep what gains."""
        count = len(self.values)
        groups = rng.permutation(count)[:_GROUPS]
        places = groups * self.m + rng.integers(0, self.m, len(groups))
        promised = np.empty((len(groups), len(groups)))
        chosen = self.order[places]
        promises(self.items, self.across, chosen, groups, self.n, self.levels, promised)
        own = promised.diagonal()
        gain = promised + promised.T - own[:, None] - own[None, :]
        pairs = _disjoint(gain)
        if not len(pairs):
            return
        self._swap(places, pairs)
        both = pairs.ravel()
        values, levels = self._solved(groups[both])
        change = (values - self.values[groups[both]]).reshape(-1, 2).sum(axis=1)
        worse = ~(change > 0)
        self._swap(places, pairs[worse])
        better = np.repeat(~worse, 2)
        self.values[groups[both[better]]] = values[better]
        self.levels[:, groups[both[better]]] = levels[:, better]

    def _swap(self, places: I64, pairs: I64) -> None:
        left, right = places[pairs[:, 0]], places[pairs[:, 1]]
        self.order[left], self.order[right] = self.order[right], self.order[left]


def _disjoint(gain: F64) -> I64:
    """Return pairs of a symmetric table, the largest positive ones first, no index twice."""
    first, second = np.triu_indices(len(gain), 1)
    worth = gain[first, second]
    free = np.ones(len(gain), np.bool_)
    pairs = []
    for k in np.argsort(-worth, kind="stable"):
        if worth[k] <= 0:
            break
        if free[first[k]] and free[second[k]]:
            free[first[k]] = free[second[k]] = False
            pairs.append((first[k], second[k]))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def trials(part: MatrixPart, order: I64, rng: np.random.Generator) -> Iterator[Step]:
    """Yield after every trial; the axes take turns. It does not end by itself."""
    pattern = part.pattern
    assert isinstance(pattern, TransposableNM)
    by_tap = part.scores.reshape(*part.scores.shape[:2], -1)
    items = (
        np.ascontiguousarray(by_tap.transpose(0, 2, 1)),  # rows, taps, columns
        np.ascontiguousarray(by_tap.transpose(1, 2, 0)),
    )
    orders = part.split(order.copy())
    axes, turn = free_axes(part), 0
    while True:
        axis = axes[turn % len(axes)]
        state = _Trials(items[axis], pattern.n, pattern.m, (orders[axis], orders[1 - axis]))
        for _ in range(_STAY):
            state.trial(rng)
            yield Step(1, part.join(*orders), float(state.values.sum()))
        turn += 1
