"""Slow twin of tile-wise sparsity, written to be read; nothing here calls the library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]
Mask = NDArray[np.bool_]


def best_value(matrix: Matrix, g: int, area: int) -> float:
    """Return the largest sum of pieces: every number of rows, and a knapsack over the pieces."""
    best = 0.0
    for rows in range(1, len(matrix) + 1):
        filled = [0.0] * (area + 1)
        for first in range(0, rows, g):
            tile = matrix[first : min(rows, first + g)]
            for column in range(matrix.shape[1]):
                worth = math.fsum(float(x) for x in tile[:, column])
                for room in range(area, len(tile) - 1, -1):
                    filled[room] = max(filled[room], filled[room - len(tile)] + worth)
        best = max(best, filled[area])
    return best


def pieces(matrix: Matrix, g: int, rows: int) -> list[list[tuple[int, int]]]:
    """Return the places of every piece of the first rows."""
    return [
        [(r, column) for r in range(first, min(rows, first + g))]
        for first in range(0, rows, g)
        for column in range(matrix.shape[1])
    ]


def masks(shape: tuple[int, int], g: int, area: int) -> Iterator[Mask]:
    """Yield the masks of all choices of pieces that fit into an area."""
    for rows in range(1, shape[0] + 1):
        found = pieces(np.zeros(shape), g, rows)
        for chosen in itertools.product([False, True], repeat=len(found)):
            places = [p for piece, stays in zip(found, chosen, strict=True) if stays for p in piece]
            if len(places) <= area:
                mask = np.zeros(shape, dtype=bool)
                for place in places:
                    mask[place] = True
                yield mask


def best_with_overlay(matrix: Matrix, g: int, area: int, over: int) -> float:
    """Return the largest sum of pieces and of single entries outside of them, by trying all."""
    best = 0.0
    for mask in masks(matrix.shape, g, area):
        rest = sorted((float(x) for x in matrix[~mask]), reverse=True)
        best = max(best, math.fsum(float(x) for x in matrix[mask]) + math.fsum(rest[:over]))
    return best


def legal(mask: Mask, g: int, area: int, over: int) -> bool:
    """Decide whether some choice of pieces leaves at most `over` entries of a mask uncovered."""
    return any((mask & ~chosen).sum() <= over for chosen in masks(mask.shape, g, area))
