"""One or two budgets, exactly: the undominated sums of layer after layer, pruned by a bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.allocation.relaxation import Choice, Floats, Relaxed, Table

MOST_BUDGETS = 2
_MOST_STATES = 500_000


def best_choice(table: Table, relaxed: Relaxed, floor: float) -> Choice | None:
    """Return the best choice worth at least `floor`, or None when too many states are to keep.

    A state is a choice for the layers so far; one that costs no less and is worth no more than
    another is dropped, and so is one that even the relaxation of the other layers does not bring
    up to `floor`. What is left at the end holds the optimum. Source: dynamic programming with
    dominance and bounds, Pisinger's algorithm for the multiple-choice knapsack, without its core.

    Parameters
    ----------
    table, relaxed
        The options, for one or two budgets, and their relaxation.
    floor
        The value of a choice within the budgets.
    """
    room = relaxed.bound - floor + 1e-9 * max(1.0, abs(floor))
    costs, value, loss = np.zeros((len(table.budgets), 1)), np.zeros(1), np.zeros(1)
    rest = _least_of_the_rest(table)
    parents: list[NDArray[np.int64]] = []
    taken: list[NDArray[np.int64]] = []
    for layer in range(table.layers):
        options = table.of(layer)
        numbers = np.flatnonzero(relaxed.losses[options] <= room) + options.start
        if len(numbers) * len(value) > _MOST_STATES:
            return None
        sums = (table.costs[:, numbers, None] + costs[:, None, :]).reshape(len(costs), -1)
        values = (table.values[numbers][:, None] + value).ravel()
        losses = (relaxed.losses[numbers][:, None] + loss).ravel()
        fits = (sums + rest[:, layer, None] <= table.allowed[:, None]).all(axis=0)
        alive = np.flatnonzero((losses <= room) & fits)
        kept = alive[_undominated(sums[:, alive], values[alive])]
        parents.append(kept % len(value))
        taken.append(numbers[kept // len(value)])
        costs, value, loss = sums[:, kept], values[kept], losses[kept]
    return _walk_back(int(value.argmax()), parents, taken)


def _least_of_the_rest(table: Table) -> Floats:
    """Return (budgets, layers): the least that the layers after each one cost."""
    least = np.minimum.reduceat(table.costs, table.first[:-1], axis=1)
    sums = np.cumsum(least[:, ::-1], axis=1)[:, ::-1]
    rest: Floats = np.hstack([sums[:, 1:], np.zeros((len(sums), 1))])
    return rest


def _undominated(costs: Floats, values: Floats) -> NDArray[np.int64]:
    """Return the states that are worth more than all that cost no more, cheapest first."""
    from permsearch.kernels.dominance import undominated

    last = costs[-1]
    ranks = np.unique(last, return_inverse=True)[1] if len(costs) > 1 else np.zeros(len(last), int)
    order = np.lexsort((-values, last, costs[0]))
    kept: NDArray[np.int64] = order[undominated(ranks[order].astype(np.int64), values[order])]
    return kept


def _walk_back(
    state: int, parents: list[NDArray[np.int64]], taken: list[NDArray[np.int64]]
) -> Choice:
    choice = np.empty(len(taken), np.int64)
    for layer in reversed(range(len(taken))):
        choice[layer] = taken[layer][state]
        state = int(parents[layer][state])
    return choice
