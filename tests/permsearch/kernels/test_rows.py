"""Kernels over rows as files have them, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permsearch.kernels.quantise import round_levels
from permsearch.kernels.rows import kept_rows, limit_rows, pack_rows


@given(
    rows=st.integers(1, 150),
    columns=st.integers(1, 150),
    first=st.integers(0, 40),
    kind=st.sampled_from([np.float32, np.float64]),
    scale=st.floats(0.1, 500),
)
@settings(max_examples=40, deadline=None)
def test_bytes_are_rounded_and_turned(
    rows: int, columns: int, first: int, kind: type, scale: float
) -> None:
    """Every score becomes the nearest level, 255 at most, at its column; the rest is untouched."""
    scores = np.random.default_rng([rows, columns]).random((rows, columns)).astype(kind)
    block = np.full((columns, first + rows + 3), 7, np.uint8)
    pack_rows(scores, kind(scale), block, first)
    expected = np.minimum(scores * kind(scale) + np.float32(0.5), 255).astype(np.uint8)
    assert (block[:, first : first + rows] == expected.T).all()
    assert (block[:, :first] == 7).all()
    assert (block[:, first + rows :] == 7).all()


def test_columns_are_rounded_alike() -> None:
    """Rows of float32 give the bytes that the kernel for columns gives."""
    scores = np.random.default_rng(0).random((70, 90), np.float32)
    block, other = np.zeros((90, 70), np.uint8), np.zeros((90, 70), np.uint8)
    pack_rows(scores, np.float32(300), block, 0)
    round_levels(np.ascontiguousarray(scores.T), np.float32(300), np.float32(255), other)
    assert np.array_equal(block, other)


@given(
    pattern=st.sampled_from([(2, 4), (1, 2), (1, 4), (4, 8), (3, 5), (1, 1)]),
    groups=st.integers(1, 8),
    rows=st.integers(1, 30),
    cut=st.integers(0, 30),
    kind=st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=60, deadline=None)
def test_rows_keep_their_largest(
    pattern: tuple[int, int], groups: int, rows: int, cut: int, kind: type
) -> None:
    """The n largest of every m columns in an order, to the bit wherever the rows are cut."""
    n, m = pattern
    rng = np.random.default_rng([groups, rows, n])
    scores = (rng.random((rows, groups * m)) * (rng.random((rows, groups * m)) < 0.8)).astype(kind)
    order = rng.permutation(groups * m)
    found = kept_rows(scores, order, n, m, 0.0)
    laid = np.sort(scores[:, order].astype(float).reshape(rows, groups, m), axis=2)
    assert found == pytest.approx(float(laid[..., m - n :].sum()), rel=1e-12)
    cut = min(cut, rows)
    assert kept_rows(scores[cut:], order, n, m, kept_rows(scores[:cut], order, n, m, 0.0)) == found


@given(columns=st.integers(1, 80), keep=st.integers(1, 80), rows=st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_the_limit_of_rows_is_one(columns: int, keep: int, rows: int) -> None:
    """Never below what sorting says, never above the sum; equal scores and zeros included."""
    keep = min(keep, columns)
    rng = np.random.default_rng([columns, keep, rows])
    scores = np.round(rng.exponential(size=(rows, columns)) * 3, rng.integers(0, 9)) / 3
    scores[0] = 0
    found = limit_rows(scores, keep, 0.0)
    best = float(np.sort(scores, axis=1)[:, columns - keep :].sum())
    assert best * (1 - 1e-12) <= found <= float(scores.sum()) * (1 + 1e-12)
