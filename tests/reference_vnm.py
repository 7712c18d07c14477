"""Slow twins of V:N:M: sets of live columns tried one by one, rows sorted one by one."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]


def tap_matrices(weight: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the matrix (out, in) of every tap of a weight."""
    return [weight[(slice(None), slice(None), *tap)] for tap in np.ndindex(*weight.shape[2:])]


def kept_of(block: Matrix, live: tuple[int, ...]) -> float:
    """Return what rows keep that may keep two of the live columns."""
    rows = block[:, list(live)].tolist()
    return math.fsum(value for row in rows for value in sorted(row)[-2:])


def live_columns(block: Matrix) -> tuple[int, ...]:
    """Return the best four columns of a block; of equal sets the first in lexicographic order."""
    sets = list(combinations(range(block.shape[1]), 4))
    return max(sets, key=lambda live: (kept_of(block, live), [-c for c in live]))


def retained_vnm(weight: Matrix, v: int, m: int) -> float:
    """Return what the best masks of all blocks keep."""
    blocks = [block for matrix in tap_matrices(weight) for block in blocks_of(matrix, v, m)]
    return math.fsum(kept_of(block, live_columns(block)) for block in blocks)


def blocks_of(matrix: NDArray[Any], v: int, m: int) -> list[NDArray[Any]]:
    """Return the blocks of a matrix."""
    rows, cols = matrix.shape
    return [matrix[r : r + v, c : c + m] for r in range(0, rows, v) for c in range(0, cols, m)]


def keep_vnm(weight: Matrix, v: int, m: int) -> Mask:
    """Return the mask of the best live columns; of equal scores the one further left stays."""
    mask = np.zeros(weight.shape, dtype=np.bool_)
    for scores, out in zip(tap_matrices(weight), tap_matrices(mask), strict=True):
        pairs = zip(blocks_of(scores, v, m), blocks_of(out, v, m), strict=True)
        for block, part in pairs:
            live = live_columns(block)
            for r, row in enumerate(block.tolist()):
                for c in sorted(live, key=lambda c: (-row[c], c))[:2]:
                    part[r, c] = True
    return mask
