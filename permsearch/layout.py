"""How a weight of any rank becomes a matrix.

A weight is ``(out, in, *k)``. Patterns that act along input channels (N:M and its relatives)
see one matrix row per output channel and tap: ``(out * prod(k), in)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def taps_as_rows(weight: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix ``(out * prod(k), in)`` of a weight ``(out, in, *k)``."""
    if weight.ndim == 2:
        return weight
    return np.moveaxis(weight, 1, -1).reshape(-1, weight.shape[1])


def weight_from_rows(matrix: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Undo `taps_as_rows` for a weight of the given shape."""
    if len(shape) == 2:
        return matrix
    taps_last = (shape[0], *shape[2:], shape[1])
    return np.ascontiguousarray(np.moveaxis(matrix.reshape(taps_last), -1, 1))


def taps_outside(weight: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix ``(prod(k) * out, in)`` of a weight ``(out, in, *k)``: tap after tap.

    Consecutive output channels stay together, so that strips of rows that divide them are strips
    of this matrix.
    """
    if weight.ndim == 2:
        return weight
    flat = weight.reshape(*weight.shape[:2], -1)
    return np.moveaxis(flat, -1, 0).reshape(-1, weight.shape[1])


def weight_from_taps(matrix: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Undo `taps_outside` for a weight of the given shape."""
    if len(shape) == 2:
        return matrix
    return np.ascontiguousarray(np.moveaxis(matrix.reshape(-1, *shape[:2]), 0, -1).reshape(shape))


def taps_as_columns(weight: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix ``(out, prod(k) * in)`` of a weight ``(out, in, *k)``.

    The input channels of a tap are consecutive: an order of `in` acts alike on every tap's.
    """
    if weight.ndim == 2:
        return weight
    flat = weight.reshape(*weight.shape[:2], -1)
    return np.moveaxis(flat, -1, 1).reshape(len(weight), -1)


def weight_from_columns(matrix: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Undo `taps_as_columns` for a weight of the given shape."""
    if len(shape) == 2:
        return matrix
    by_tap = matrix.reshape(shape[0], -1, shape[1])
    return np.ascontiguousarray(np.moveaxis(by_tap, 1, -1).reshape(shape))
