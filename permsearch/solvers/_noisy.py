"""Assignments under noise: the moves of annealed searches that put many things back at once.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.kernels.jv import assign
from permsearch.kernels.transport import balanced

_RANGE = 1 << 24  # costs stay below it, as the assignment kernel asks


def spread(worth: NDArray[Any]) -> float:
    """Return the standard deviation of a table less the means of its rows and columns."""
    rest = worth - worth.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=0)
    return float(rest.std())


def assigned(
    worth: NDArray[np.float32], noise: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return each row's column in an assignment of the largest worth under Gaussian noise.

    Parameters
    ----------
    worth
        Shape (n, k), n <= k.
    noise
        Standard deviation; 0 makes the assignment an exact one, up to 2^-24 of the largest
        difference.
    rng
        Asked only where there is noise.
    """
    count, width = worth.shape
    gain = worth - worth.mean(axis=1, keepdims=True)
    if count == width:
        gain -= gain.mean(axis=0)
    if noise > 0:
        gain += np.float32(noise) * rng.standard_normal(worth.shape, dtype=np.float32)
    peak = float(np.abs(gain).max())
    scale = _RANGE / peak if peak > 0 else 0.0
    costs = np.rint(gain * -scale).astype(np.int32)
    to_col, to_row = np.empty(count, np.int32), np.empty(width, np.int32)
    assign(costs, np.zeros(width, np.int32), to_col, to_row)
    return to_col.astype(np.int64)


def grouped(
    benefits: NDArray[np.float32], capacity: int, noise: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return items in the order of their groups, each put where it is worth most under noise.

    Parameters
    ----------
    benefits
        Shape (groups, items), items = groups * capacity.
    capacity
    noise
        Standard deviation in units of that of the benefits of an item.
    rng
        Asked only where there is noise.

    Returns
    -------
    int64 array (items,)
        The items of the first group, then those of the second, ...; ascending within each.
    """
    worth = np.ascontiguousarray(benefits.T)
    if noise > 0:
        worth -= worth.mean(axis=1, keepdims=True)
        scale = np.float32(noise * float(worth.std()))
        worth += scale * rng.standard_normal(worth.shape, dtype=np.float32)
    return np.argsort(balanced(worth, capacity), kind="stable").astype(np.int64)
