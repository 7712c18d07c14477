"""Which tile comes last: the one that is worth most once its weakest rows are dropped.

Imported only where it runs, since it loads a kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.tiles import worth_of_rows

I64 = NDArray[np.int64]


def weakest_last(matrix: NDArray[np.float32], order: I64, g: int, area: int) -> I64:
    """Return the order with the tiles rearranged, and the rows of the last one by strength.

    The rows behind the ones that stay may be dropped, which makes the pieces of the last tile
    lower. Of tiles of equal height any may be last; where the rows do not fill the tiles, the
    lower one is.

    Parameters
    ----------
    matrix
        Scores, float32 (R, C).
    order
        Rows as they stand in the tiles.
    g
        Rows of a tile.
    area
        Entries that pieces may keep.
    """
    count = -(-len(order) // g)
    ragged = len(order) % g > 0
    full = [matrix[order[t * g : (t + 1) * g]].sum(axis=0, dtype=np.float64) for t in range(count)]
    price = _price(np.array(full[: count - ragged]), g, area)
    best, gain = order, 0.0
    for t in [count - 1] if ragged else range(count):
        rows = order[t * g : (t + 1) * g]
        kept = full[t] > price * len(rows)
        strength = matrix[rows][:, kept].sum(axis=1, dtype=np.float64)
        sorted_rows = rows[np.argsort(-strength, kind="stable")]
        worth = worth_of_rows(matrix[sorted_rows], g, price)
        if worth.max() - worth[-1] > gain:
            gain = float(worth.max() - worth[-1])
            best = np.concatenate([order[: t * g], order[(t + 1) * g :], sorted_rows])
    return best


def _price(sums: NDArray[np.float64], g: int, area: int) -> float:
    """Return what an entry costs where pieces of full tiles fill the area."""
    room = area // g
    if room >= sums.size:
        return 0.0
    return float(np.partition(sums, sums.size - room - 1, axis=None)[-room - 1]) / g
