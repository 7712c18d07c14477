"""The largest of some numbers, their count exact under ties."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def top_mask(values: NDArray[Any], count: int) -> NDArray[np.bool_]:
    """Return which entries are the `count` largest; of equal ones the lower index counts.

    Parameters
    ----------
    values
        Any shape, finite.
    count
        0 <= count <= values.size.

    Examples
    --------
    >>> top_mask(np.array([1.0, 3.0, 1.0, 1.0]), 2)
    array([ True,  True, False, False])
    """
    if count <= 0:
        return np.zeros(values.shape, dtype=np.bool_)
    level = np.partition(values, values.size - count, axis=None)[values.size - count]
    mask: NDArray[np.bool_] = np.greater(values, level)
    tied = np.flatnonzero(values == level)
    mask.ravel()[tied[: count - np.count_nonzero(mask)]] = True
    return mask


def top_sum(values: NDArray[Any], count: int) -> float:
    """Return the sum of the `count` largest entries, in float64."""
    if count <= 0:
        return 0.0
    drop = values.size - count
    return float(np.partition(values, drop, axis=None)[drop:].sum(dtype=np.float64))
