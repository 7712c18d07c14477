"""Values of all unions of two parts, for pairing columns, and pairs, and pairs of pairs.

With a the n largest of one part and b the n largest of another, sorted downwards per row (zeros
where a part has fewer), the union keeps sum_i max(a[i], b[n - 1 - i]). The values of all pairs of
parts are therefore one matrix of sums of maxima over n times as many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from permsearch.kernels.holes import insert_high
from permsearch.kernels.l1 import summax

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["top_lists", "union_values"]

_BLOCK = 512  # rows of the symmetric matrix computed at once


@njit(cache=True, nogil=True)
def _fill(columns: Any, parts: Any, lists: Any) -> None:
    carry = np.empty(columns.shape[1], columns.dtype)
    for k in range(parts.shape[0]):
        for i in range(parts.shape[1]):
            carry[:] = columns[parts[k, i]]
            insert_high(lists[k], min(i + 1, lists.shape[1]), carry)


def top_lists(columns: NDArray[Any], parts: NDArray[np.int64], n: int) -> NDArray[Any]:
    """Return the n largest values of each part, shape (parts, n, R), sorted downwards per row.

    Parameters
    ----------
    columns : array of floats or bytes, shape (C, R)
    parts : int64 array, shape (P, size)
        Columns of each part.
    n : int
        Parts of fewer columns are filled up with zeros.
    """
    lists = np.zeros((len(parts), n, columns.shape[1]), columns.dtype)
    _fill(columns, parts, lists)
    return lists


def union_values(lists: NDArray[Any]) -> NDArray[Any]:
    """Return the symmetric matrix of what the union of two parts keeps; the diagonal means nothing.

    Parameters
    ----------
    lists : float array, shape (P, n, R)
        From `top_lists`.
    """
    count = len(lists)
    left = lists.reshape(count, -1)
    right = (
        left if lists.shape[1] == 1 else np.ascontiguousarray(lists[:, ::-1]).reshape(left.shape)
    )
    values = np.empty((count, count), lists.dtype)
    for first in range(0, count, _BLOCK):
        last = min(count, first + _BLOCK)
        part = np.empty((last - first, count - first), lists.dtype)
        summax(left[first:last], right[first:], part)
        corner = part[:, : last - first]  # its halves sum the same numbers in another order
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        values[first:last, first:] = part
        values[first:, first:last] = part.T
    return values
