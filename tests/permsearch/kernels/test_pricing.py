"""Pricing finds every group that a full enumeration finds, in bytes and in float32."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from permsearch.kernels.groups import leaders, pair_values, smoothed, values_of
from permsearch.kernels.pricing import price_bytes
from permsearch.kernels.pricing_float import price_floats
from permsearch.kernels.sad import padded_bytes

SHAPES = [(8, 1, 2), (9, 2, 3), (9, 1, 3), (12, 2, 4), (13, 1, 4), (12, 3, 4), (12, 2, 6)]


def prefixes(count: int, m: int) -> NDArray[np.int64]:
    """Return all sorted prefixes of a group."""
    rows = list(combinations(range(count - 2), m - 2))
    return np.array(rows, dtype=np.int64).reshape(len(rows), m - 2)


def kept(columns: NDArray[Any], group: tuple[int, ...], n: int) -> float:
    """Return what a group keeps, by sorting."""
    return float(np.sort(columns[list(group)].astype(np.float64), axis=0)[-n:].sum())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bytes_find_what_enumeration_finds(shape: tuple[int, int, int]) -> None:
    """Every group above the limit is found, and none that is more than rounding below it."""
    count, n, m = shape
    rng = np.random.default_rng(0)
    levels = padded_bytes(count, 37)
    levels[:, :37] = rng.integers(0, 256, (count, 37))
    sums = levels.sum(axis=1, dtype=np.int64)
    cost = 0.9 * sums + 20 * rng.normal(size=count)
    worth = {g: 2 * kept(levels, g, n) - cost[list(g)].sum() for g in combinations(range(count), m)}
    limit = float(np.quantile(list(worth.values()), 0.8))
    found = np.empty((len(worth) + count * count, m), np.int64)
    y = padded_bytes(count + 2, 37)
    done, size = price_bytes(levels, sums, cost, limit, n, prefixes(count, m), y, found)
    got = {tuple(group) for group in found[:size].tolist()}
    assert done == len(prefixes(count, m))
    assert {g for g, x in worth.items() if x > limit} <= got
    assert got <= {g for g, x in worth.items() if x > limit - 3}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats_find_what_enumeration_finds(shape: tuple[int, int, int]) -> None:
    """Every group above the limit is found; a full buffer stops before a prefix, to go on there."""
    count, n, m = shape
    rng = np.random.default_rng(1)
    columns = rng.random((count, 21), dtype=np.float32)
    cost = 0.45 * columns.sum(axis=1, dtype=np.float64)
    worth = {g: kept(columns, g, n) - cost[list(g)].sum() for g in combinations(range(count), m)}
    limit = float(np.quantile(list(worth.values()), 0.7))
    found = np.empty((count * (count - 1) // 2 + 5, m), np.int64)
    y = np.empty((count + 1, 21), np.float32)
    got, rest = set(), prefixes(count, m)
    while len(rest):
        done, size = price_floats(columns, cost, 1 + 1e-5, limit, n, rest, y, found)
        assert done > 0
        got |= {tuple(group) for group in found[:size].tolist()}
        rest = rest[done:]
    assert {g for g, x in worth.items() if x > limit} <= got
    assert got <= {g for g, x in worth.items() if x > limit - 1e-3}


@pytest.mark.parametrize(("n", "m"), [(2, 4), (1, 2), (3, 4), (4, 8)])
def test_values_are_sums_of_the_largest(n: int, m: int) -> None:
    """The value of a listed group is the float64 sum of the n largest of every row."""
    rng = np.random.default_rng(2)
    columns = rng.random((12, 19), dtype=np.float32)
    groups = np.array(list(combinations(range(12), m))[:50], dtype=np.int64)
    out = np.empty(len(groups))
    values_of(columns, groups, n, out)
    assert out == pytest.approx([kept(columns, tuple(g), n) for g in groups.tolist()], rel=1e-14)


def test_pairs_are_sums_of_maxima() -> None:
    """A pair keeps the larger of both in every row, in float64."""
    columns = np.random.default_rng(3).random((7, 23))
    out = np.empty((7, 7))
    pair_values(columns, out)
    for i, j in combinations(range(7), 2):
        assert out[i, j] == out[j, i] == pytest.approx(np.maximum(columns[i], columns[j]).sum())


def test_derivatives_of_the_smoothed_dual() -> None:
    """Gradient and Hessian agree with differences of the value."""
    rng = np.random.default_rng(4)
    groups = np.array(list(combinations(range(6), 3)), dtype=np.int64)
    values, duals = rng.normal(size=len(groups)), rng.normal(size=6) / 3
    gradient, hessian, none = np.empty(6), np.empty((6, 6)), np.empty((0, 0))
    smoothed(values, groups, duals, 0.5, gradient, hessian)
    for c in range(6):
        ahead, behind = np.empty(6), np.empty(6)
        step = 1e-5 * np.eye(6)[c]
        up = smoothed(values, groups, duals + step, 0.5, ahead, none)
        down = smoothed(values, groups, duals - step, 0.5, behind, none)
        assert gradient[c] == pytest.approx((up - down) / 2e-5, abs=1e-8)
        lower = ((ahead - behind) / 2e-5)[c:]
        assert hessian[c:, c] == pytest.approx(lower, abs=1e-7)


def test_leaders_are_the_first_of_each_column() -> None:
    """A group is kept while one of its columns has had few groups."""
    groups = np.array([[0, 1], [0, 2], [0, 1], [1, 2], [0, 3]], dtype=np.int64)
    keep = np.empty(5, np.bool_)
    leaders(groups, 4, 1, keep)
    assert keep.tolist() == [True, True, False, False, True]
