"""Slow twins of transposable N:M: all masks of a block, and a linear program."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Matrix = NDArray[np.floating[Any]]


@cache
def masks(n: int, m: int) -> NDArray[np.bool_]:
    """Return all m x m masks with n entries in each row and each column."""
    rows = [[i in kept for i in range(m)] for kept in itertools.combinations(range(m), n)]
    every = [np.array(mask) for mask in itertools.product(rows, repeat=m)]
    return np.array([mask for mask in every if (mask.sum(axis=0) == n).all()])


def matrices(weight: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the matrix out x in of every tap."""
    return [weight[(slice(None), slice(None), *tap)] for tap in np.ndindex(*weight.shape[2:])]


def blocks(matrix: Matrix, m: int) -> list[Matrix]:
    """Return the m x m blocks of a matrix."""
    return [
        matrix[r : r + m, c : c + m]
        for r in range(0, matrix.shape[0], m)
        for c in range(0, matrix.shape[1], m)
    ]


def best_of_all(block: Matrix, n: int) -> float:
    """Return what the best mask of a block keeps, by trying all of them."""
    return max(float(block[mask].sum(dtype=np.float64)) for mask in masks(n, len(block)))


def best_by_program(block: Matrix, n: int) -> float:
    """Return what the best mask of a block keeps, by a linear program whose corners are masks."""
    m, scale = len(block), float(block.max()) or 1.0
    rows = np.kron(np.eye(m), np.ones(m))
    cols = np.kron(np.ones(m), np.eye(m))
    cost = -(block.astype(np.float64) / scale).ravel()
    both, count = np.vstack([rows, cols]), np.full(2 * m, n)
    return -scale * float(linprog(cost, A_eq=both, b_eq=count, bounds=(0, 1)).fun)
