"""Which of many states no other one beats on every count."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def undominated(ranks: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which states are worth more than all earlier ones of no larger rank.

    Parameters
    ----------
    ranks
        int64 (states,), >= 0: the place of each state's second cost among all. States come in the
        order of their first cost, equal ones by second cost, then the largest value first.
    values
        float64 (states,).

    A binary indexed tree holds the largest value so far of every prefix of ranks.
    """
    size = 1
    for rank in ranks:
        size = max(size, rank + 1)
    tree = np.full(size + 1, -np.inf)
    kept = np.zeros(len(ranks), np.bool_)
    for state in range(len(ranks)):
        place = ranks[state] + 1
        best = -np.inf
        while place > 0:
            best = max(best, tree[place])
            place -= place & -place
        if values[state] <= best:
            continue
        kept[state] = True
        place = ranks[state] + 1
        while place <= size:
            tree[place] = max(tree[place], values[state])
            place += place & -place
    return kept
