"""Slow twins of blocks and unaligned blocks: plain loops that call nothing of the library."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]


def unfolded(weight: NDArray[Any]) -> NDArray[Any]:
    """Return out x (*k, in): one column per tap and input channel, taps outermost."""
    rows = []
    for out in range(weight.shape[0]):
        row = []
        for tap in np.ndindex(*weight.shape[2:]):
            row += [weight[(out, column, *tap)] for column in range(weight.shape[1])]
        rows.append(row)
    return np.array(rows)


def block_sums(matrix: Matrix, height: int, width: int) -> dict[tuple[int, int], float]:
    """Return the exactly rounded sum of each block, by its first row and column."""
    sums = {}
    for r in range(0, matrix.shape[0], height):
        for c in range(0, matrix.shape[1], width):
            sums[r, c] = math.fsum(matrix[r : r + height, c : c + width].ravel().tolist())
    return sums


def keep_blocks(matrix: Matrix, height: int, width: int, count: int) -> NDArray[np.bool_]:
    """Return the mask of the largest blocks; of equals, the one further up, then left."""
    sums = block_sums(matrix, height, width)
    mask = np.zeros(matrix.shape, dtype=np.bool_)
    for r, c in sorted(sums, key=lambda at: (-sums[at], at))[:count]:
        mask[r : r + height, c : c + width] = True
    return mask


def best_unaligned(matrix: Matrix, size: int, most: int) -> float:
    """Return the largest sum of at most so many blocks, by a table over rows and counts."""
    best = [0.0]
    for row in matrix.astype(np.float64):
        best = _joined(best, _row_table(row, size))
    return max(best[: most + 1])


def _row_table(row: NDArray[np.float64], size: int) -> list[float]:
    """Return the most that exactly k blocks of a row hold, for every k that fits."""
    width = len(row)
    table = np.full((width + 1, width // size + 1), -np.inf)
    table[:, 0] = 0
    for i in range(size, width + 1):
        for k in range(1, width // size + 1):
            taken = table[i - size, k - 1] + math.fsum(row[i - size : i])
            table[i, k] = max(table[i - 1, k], taken)
    return [float(value) for value in table[width]]


def _joined(one: list[float], two: list[float]) -> list[float]:
    out = [-np.inf] * (len(one) + len(two) - 1)
    for (i, x), (j, y) in itertools.product(enumerate(one), enumerate(two)):
        out[i + j] = max(out[i + j], x + y)
    return out


def runs_fit(line: list[bool], size: int, most: int) -> bool:
    """Decide by trying whether at most so many disjoint blocks cover the marked entries."""
    starts = range(len(line) - size + 1)
    for count in range(most + 1):
        for chosen in itertools.combinations(starts, count):
            apart = all(b - a >= size for a, b in itertools.pairwise(chosen))
            covered = {c + k for c in chosen for k in range(size)}
            if apart and all(i in covered for i, kept in enumerate(line) if kept):
                return True
    return False


def greedy_unaligned(matrix: Matrix, size: int, count: int) -> NDArray[np.bool_]:
    """Return the mask of blocks from heavy to light, none overlapping an earlier one."""
    starts = [(r, c) for r in range(len(matrix)) for c in range(matrix.shape[1] - size + 1)]
    worth = {(r, c): float(matrix[r, c : c + size].astype(float).sum()) for r, c in starts}
    mask = np.zeros(matrix.shape, dtype=np.bool_)
    for r, c in sorted(starts, key=lambda at: (-worth[at], at)):
        if count and not mask[r, c : c + size].any():
            mask[r, c : c + size] = True
            count -= 1
    return mask
