"""How much it matters in which group a column lands: the natural unit of annealing noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from permsearch.kernels.holes import fill_hole
from permsearch.kernels.sad import padded_bytes, sad_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOLES = 64  # sampled; the standard error of a column's spread is then under 10 %


@njit(cache=True, nogil=True)
def _holes(levels, order, n, m, y):  # type: ignore[no-untyped-def]
    width = levels.shape[1]
    scratch = np.empty(((m + 1) // 2 + 1, width), np.uint8)
    carry = np.empty(width, np.uint8)
    for g in range(y.shape[0]):
        fill_hole(levels, order[g * m + 1 : g * m + m], n, scratch, carry, y[g])


def spread(
    levels: NDArray[np.uint8], n: int, m: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return each column's standard deviation of value over the holes of a random order.

    Values are in half levels and centred over holes and columns: what is left is what a choice
    between groups is about. A column that is the same everywhere has spread 0.
    """
    columns = len(levels)
    count = min(columns // m, _HOLES)
    y = padded_bytes(count, levels.shape[1])
    _holes(levels, rng.permutation(columns), n, m, y)
    sad = sad_matrix(y, levels, np.empty((count, columns), np.int32)).astype(np.float64)
    sad -= sad.mean(axis=0)
    sad -= sad.mean(axis=1, keepdims=True)
    deviation: NDArray[np.float32] = np.sqrt((sad**2).mean(axis=0)).astype(np.float32)
    return deviation
