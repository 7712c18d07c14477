"""No limit of a clustering pattern lies below the best of all masks and orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.limits.partition import block_partition, listable, vector_partition
from permsearch.limits.rounding import up
from permsearch.limits.rows import block_top, row_top, top_entries, vector_top
from permsearch.limits.section import lowest
from permsearch.limits.spectral import (
    block_spectral,
    energy,
    live_spectral,
    ragged_spectral,
    vector_spectral,
)

Matrix = NDArray[np.floating[Any]]
Parts = list[tuple[int, ...]]

KINDS = ("plain", "ties", "zeros", "equal columns", "equal rows", "column scales", "row scales")


def matrix(kind: str, rows: int, cols: int, seed: int) -> Matrix:
    """Return a small matrix that is hard on limits."""
    rng = np.random.default_rng(seed)
    normal = np.abs(rng.standard_normal((rows, cols)))
    if kind == "ties":
        return rng.integers(0, 3, (rows, cols)).astype(np.float32)
    if kind == "zeros":
        return normal * (rng.random(normal.shape) < 0.2)
    if kind == "equal columns":
        return normal[:, rng.integers(0, min(2, cols), cols)]
    if kind == "equal rows":
        return normal[rng.integers(0, 2, rows)]
    if kind == "column scales":
        return normal * np.exp(4 * rng.standard_normal(cols))
    if kind == "row scales":
        return normal * np.exp(4 * rng.standard_normal((rows, 1)))
    return normal


def groupings(items: tuple[int, ...], size: int) -> Iterator[Parts]:
    """Yield every partition of the items into groups of a size."""
    if not items:
        yield []
        return
    for rest in itertools.combinations(items[1:], size - 1):
        left = tuple(item for item in items[1:] if item not in rest)
        for others in groupings(left, size):
            yield [(items[0], *rest), *others]


def sums(scores: Matrix, rows: Parts, cols: Parts) -> list[list[float]]:
    """Return the exactly rounded sum of each block."""
    entries = scores.tolist()
    return [
        [math.fsum(entries[r][c] for r in group for c in strip) for strip in cols] for group in rows
    ]


def largest(values: list[float], count: int) -> float:
    """Return the sum of the largest values."""
    return math.fsum(sorted(values)[len(values) - count :])


def best_blocks(scores: Matrix, shape: tuple[int, int], kept: int) -> float:
    """Return the most that so many blocks hold under any order of rows and columns."""
    best = 0.0
    for rows in groupings(tuple(range(scores.shape[0])), shape[0]):
        for cols in groupings(tuple(range(scores.shape[1])), shape[1]):
            best = max(best, largest([*itertools.chain(*sums(scores, rows, cols))], kept))
    return best


def best_balanced(scores: Matrix, v: int, each: int) -> float:
    """Return the most that vectors hold, as many in every group of rows."""
    singles = [(c,) for c in range(scores.shape[1])]
    return max(
        math.fsum(largest(row, each) for row in sums(scores, rows, singles))
        for rows in groupings(tuple(range(len(scores))), v)
    )


def best_live(scores: Matrix, v: int, live: int, kept: int) -> float:
    """Return the most that rows hold that keep some of their group's live columns."""
    choices = list(itertools.combinations(range(scores.shape[1]), live))

    def group(rows: tuple[int, ...]) -> float:
        return max(
            math.fsum(largest([float(scores[r, c]) for c in columns], kept) for r in rows)
            for columns in choices
        )

    return max(
        math.fsum(group(rows) for rows in parts)
        for parts in groupings(tuple(range(len(scores))), v)
    )


def best_ragged(scores: Matrix, groups: int, area: int) -> float:
    """Return the most that an area holds with so many groups of rows of any sizes, or none."""
    height, width = scores.shape
    best = 0.0
    for label in itertools.product(range(groups + 1), repeat=height):
        members = [[r for r in range(height) if label[r] == g] for g in range(groups)]
        pieces = [
            (len(rows), math.fsum(scores[r, c] for r in rows))
            for rows in members
            for c in range(width)
        ]
        held = [0.0] * (area + 1)  # knapsack: the most that each area holds
        for size, value in pieces:
            for a in range(area, size - 1, -1):
                held[a] = max(held[a], held[a - size] + value)
        best = max(best, held[area])
    return best


small = st.tuples(st.sampled_from(KINDS), st.sampled_from([1.0, 1e-6, 1e6]), st.integers(0, 2**31))


@settings(max_examples=60)
@given(small, st.sampled_from([(4, 2), (6, 2), (6, 3), (8, 4)]), st.integers(1, 5), st.data())
def test_vectors(
    drawn: tuple[str, float, int], shape: tuple[int, int], cols: int, data: st.DataObject
) -> None:
    """Sorted, spectral and partition limits of vectors cover the best grouping of the rows."""
    (kind, scale, seed), (rows, v) = drawn, shape
    scores = matrix(kind, rows, cols, seed) * scale
    kept = data.draw(st.integers(1, rows // v * cols))
    best = best_blocks(scores, (v, 1), kept)
    assert up(vector_top(scores, v, kept)) >= best
    assert up(top_entries(scores, kept * v)) >= vector_top(scores, v, kept) * (1 - 1e-14)
    assert vector_spectral(scores, v, kept) >= best
    assert vector_partition(scores, v, kept) >= best
    each = data.draw(st.integers(1, cols))
    best = best_balanced(scores, v, each)
    assert up(row_top(scores, each)) >= best
    assert vector_spectral(scores, v, rows // v * each, balanced=True) >= best
    assert vector_partition(scores, v, rows // v * each, balanced=True) >= best


@settings(max_examples=40)
@given(
    small,
    st.sampled_from([(4, 4, 2, 2), (6, 4, 2, 2), (6, 4, 3, 2), (4, 6, 2, 3), (4, 2, 4, 1)]),
    st.data(),
)
def test_blocks(
    drawn: tuple[str, float, int], shape: tuple[int, int, int, int], data: st.DataObject
) -> None:
    """Sorted, spectral and partition limits of blocks cover the best orders of both axes."""
    (kind, scale, seed), (rows, cols, height, width) = drawn, shape
    scores = matrix(kind, rows, cols, seed) * scale
    kept = data.draw(st.integers(1, rows // height * (cols // width)))
    best = best_blocks(scores, (height, width), kept)
    assert up(block_top(scores, (height, width), kept)) >= best
    assert block_spectral(scores, (height, width), kept) >= best
    assert block_partition(scores, (height, width), kept) >= best


@settings(max_examples=40)
@given(small, st.sampled_from([(4, 2), (6, 3)]), st.integers(2, 5), st.data())
def test_two_levels(
    drawn: tuple[str, float, int], shape: tuple[int, int], cols: int, data: st.DataObject
) -> None:
    """The limit of rows that choose among live columns covers every choice of both."""
    (kind, scale, seed), (rows, v) = drawn, shape
    scores = matrix(kind, rows, cols, seed) * scale
    live = data.draw(st.integers(1, cols))
    kept = data.draw(st.integers(1, live))
    assert live_spectral(scores, v, live, kept) >= best_live(scores, v, live, kept)


@settings(max_examples=25)
@given(small, st.integers(2, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_ragged_groups(
    drawn: tuple[str, float, int], rows: int, cols: int, groups: int, data: st.DataObject
) -> None:
    """The limit of groups of any sizes covers every way to group and to drop rows."""
    kind, scale, seed = drawn
    scores = matrix(kind, rows, cols, seed) * scale
    area = data.draw(st.integers(1, rows * cols))
    assert ragged_spectral(scores, groups, area) >= best_ragged(scores, groups, area)


@given(st.integers(0, 2**31), st.integers(1, 7), st.integers(1, 7), st.integers(0, 8))
def test_energy(seed: int, rows: int, cols: int, count: int) -> None:
    """The energy of the largest singular values is that of a decomposition, rounded up."""
    drawn = np.random.default_rng(seed).standard_normal((rows, cols))
    values = np.linalg.svd(drawn, compute_uv=False)[:count] ** 2
    assert values.sum() * (1 - 1e-13) <= energy(drawn, count) <= values.sum() * (1 + 1e-9)


def test_limits_are_worth_having() -> None:
    """On noise the spectral limits lie far below sorting, and listing all groups lower still."""
    scores = np.abs(np.random.default_rng(0).standard_normal((128, 96)))
    kept = 128 // 32 * 24
    top = min(row_top(scores, 24), vector_top(scores, 32, kept))
    assert vector_spectral(scores, 32, kept, balanced=True) < 0.75 * top
    assert vector_spectral(scores, 32, kept) < 0.75 * top
    assert block_spectral(scores, (16, 16), 12) < 0.8 * block_top(scores, (16, 16), 12)
    assert live_spectral(scores, 32, 48, 24) < 0.95 * row_top(scores, 24)
    few = scores[:12]
    spectral = vector_spectral(few, 4, 72, balanced=True)
    assert vector_partition(few, 4, 72, balanced=True) < 0.95 * spectral


def test_column_scales_do_not_spoil_the_spectral_limit() -> None:
    """Weights on the columns keep the limit of strongly scaled columns below sorting."""
    scores = np.abs(ps.instances.lognormal_columns(256, 256, seed=0))
    kept = 256 // 32 * 64
    assert vector_spectral(scores, 32, kept) < 0.99 * vector_top(scores, 32, kept)


@pytest.mark.parametrize("exponent", [-1020, 900])
def test_partition_limits_hold_at_any_scale(exponent: int) -> None:
    """Scores at the ends of float64 get the limit of ordinary ones, scaled."""
    scores = matrix("plain", 8, 6, 3)
    far = np.ldexp(scores, exponent)
    for limit in (
        lambda m: vector_partition(m, 2, 12),
        lambda m: vector_partition(m, 2, 12, balanced=True),
        lambda m: block_partition(m, (2, 2), 6),
    ):
        assert math.ldexp(limit(far), -exponent) == pytest.approx(limit(scores), rel=1e-6)


def test_one_group_and_everything_kept_are_exact() -> None:
    """Where there is nothing to choose the limits are the values themselves."""
    scores = np.abs(np.random.default_rng(1).standard_normal((6, 8)))
    whole = pytest.approx(scores.sum(), rel=1e-4)
    assert vector_spectral(scores, 3, 16) == whole
    assert block_spectral(scores, (3, 4), 4) == whole
    best = pytest.approx(np.sort(scores.sum(axis=0))[-3:].sum(), rel=1e-9)
    assert vector_spectral(scores, 6, 3) == best
    assert vector_partition(scores, 6, 3) == best
    assert vector_spectral(np.zeros((6, 8)), 3, 4) == 0.0


def test_listable_counts_groups() -> None:
    """Groups are listed up to fifty thousand of them."""
    assert listable(32, 4)
    assert not listable(40, 4)


def test_golden_section_finds_a_minimum_and_never_less() -> None:
    """The least value seen is close to the least there is, and is a value of the function."""
    found = lowest(lambda x: (x - 0.3) ** 2 + 1, -1.0, 2.0, 40)
    assert 1 <= found <= 1 + 1e-9
