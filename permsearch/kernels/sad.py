"""Sums of absolute differences of bytes: the 8-bit twin of the sums of maxima.

``max(y, a) = (y + a + |y - a|) / 2``, and a processor with AVX2 sums 32 absolute differences of
bytes in one instruction, ``psadbw``. LLVM does not find it in a plain loop, so it is emitted here
as vector code. Without AVX2 a plain loop computes the same integers.

Rows must be zero-padded to a multiple of `PAD` bytes. The kernels check nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from permsearch.kernels.psadbw import HAS_PSADBW, PAD, TILE_COLS, TILE_ROWS, plain, vector
from permsearch.kernels.threads import over_row_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HAS_PSADBW", "PAD", "padded_bytes", "sad_matrix", "sad_pair", "sad_serial"]

_BLOCK = 96

_emit = vector if HAS_PSADBW else plain
sad_tile, sad_pair = _emit.tile, _emit.pair


@njit(cache=True, nogil=True)
def _edge(y, a, out, i, j):
    """One pair at a time: what is narrower than a tile."""
    for p in range(i, y.shape[0]):
        for c in range(j, a.shape[0]):
            out[p, c] = sad_pair(y, p, a, c)


@njit(cache=True, nogil=True)
def sad_serial(y, a, out):
    """``out[p, c] = sum_r |y[p, r] - a[c, r]|`` (int32) on one core; callable from kernels."""
    rows, cols = y.shape[0], a.shape[0]
    if rows < TILE_ROWS or cols < TILE_COLS:
        _edge(y, a, out, 0, 0)
        return
    for cb in range(0, cols, _BLOCK):
        ce = min(cols, cb + _BLOCK)
        for i in range(0, rows, TILE_ROWS):
            # The last tile overlaps its neighbour instead of running over the edge.
            p = min(i, rows - TILE_ROWS)
            for c in range(cb, ce, TILE_COLS):
                sad_tile(y, p, a, min(c, cols - TILE_COLS), out)


def sad_matrix(
    y: NDArray[np.uint8], a: NDArray[np.uint8], out: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return ``out`` with the sum of absolute differences of every row of ``y`` and of ``a``.

    ``y`` (P, R) and ``a`` (C, R) are C-contiguous bytes, R a multiple of `PAD`; ``out`` is int32
    (P, C). Any number of threads gives the same integers.
    """
    over_row_blocks(sad_serial, y, a, out)
    return out


def padded_bytes(rows: int, length: int) -> NDArray[np.uint8]:
    """Return a zeroed (rows, length rounded up to `PAD`) byte array, aligned to a cache line."""
    width = -(-length // PAD) * PAD
    buffer: NDArray[Any] = np.zeros(rows * width + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + rows * width].reshape(rows, width)
