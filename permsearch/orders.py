"""Functions on orders.

An order is an integer array: ``order[i]`` is the old index of the item that now stands at
position ``i``, so ``x[order]`` rearranges.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.checks import whole
from permsearch.errors import OrderError

Order: TypeAlias = NDArray[np.intp]


def identity(size: int) -> Order:
    """Return the order of `size` items that moves nothing.

    Raises
    ------
    OrderError
        When `size` is no integer >= 0.

    Examples
    --------
    >>> identity(3).tolist()
    [0, 1, 2]
    """
    return np.arange(whole("the size of an order", size, 0, OrderError), dtype=np.intp)


def as_order(order: ArrayLike, size: int | None = None, name: str = "order") -> Order:
    """Return a private copy of `order` after checking that it is a permutation.

    Parameters
    ----------
    order
        Integers, shape (size,).
    size
        Expected length; any length when None.
    name
        How an error message calls the array.

    Raises
    ------
    OrderError
        Naming the first offending entry.
    """
    try:
        array: NDArray[Any] = np.asarray(order)
    except ValueError as error:
        raise OrderError(f"{name} is no array: {error}") from None
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise OrderError(
            f"{name} must be a 1-D integer array, got shape {array.shape} of {array.dtype}."
        )
    if size is not None and array.size != size:
        raise OrderError(f"{name} has {array.size} entries, but {size} items are to be ordered.")
    outside = np.flatnonzero((array < 0) | (array >= array.size))
    if outside.size:
        at = int(outside[0])
        raise OrderError(f"{name}[{at}] = {array[at]} lies outside 0..{array.size - 1}.")
    checked: Order = array.astype(np.intp)
    counts = np.bincount(checked, minlength=array.size)
    if (counts != 1).any():
        item = int(np.flatnonzero(counts != 1)[0])
        raise OrderError(f"{name} names item {item} {counts[item]} times; each must stand once.")
    return checked


def invert(order: ArrayLike) -> Order:
    """Return the order that undoes `order`: ``x[order][invert(order)] == x``.

    Parameters
    ----------
    order
        Integers, shape (size,), each of 0..size - 1 once; so is what is returned.

    Raises
    ------
    OrderError
        When `order` is no order, naming the first offending entry.

    Examples
    --------
    >>> invert([2, 0, 1]).tolist()
    [1, 2, 0]
    """
    array = as_order(order)
    inverse = np.empty_like(array)
    inverse[array] = identity(array.size)
    return inverse


def compose(first: ArrayLike, second: ArrayLike) -> Order:
    """Return the order that applies `first`, then `second`: ``x[first][second]``.

    Raises
    ------
    OrderError
        When one of them is no order, or they are not equally long.

    Examples
    --------
    >>> compose([2, 0, 1], [1, 0, 2]).tolist()
    [0, 2, 1]
    """
    head = as_order(first, name="first")
    tail: Order = as_order(second, head.size, name="second")
    return head[tail]


def expand(order: ArrayLike, width: int) -> Order:
    """Return the order of items that moves whole units of `width` consecutive items.

    Parameters
    ----------
    order
        Of the units: integers, shape (units,).
    width
        Items of a unit; what is returned has shape (units * width,).

    Raises
    ------
    OrderError
        When `order` is no order, or `width` no integer >= 1.

    Examples
    --------
    >>> expand([1, 0], 3).tolist()
    [3, 4, 5, 0, 1, 2]
    """
    units = as_order(order)
    width = whole("the width of a unit", width, 1, OrderError)
    return (units[:, None] * width + np.arange(width)).ravel()
