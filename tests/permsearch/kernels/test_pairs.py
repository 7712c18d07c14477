"""Values of unions of two parts: one matrix, equal to sorting every union."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permsearch.kernels import pairs
from permsearch.kernels.pairs import top_lists, union_values


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1, 2, 3, 8]),
    n=st.sampled_from([1, 2, 3, 5]),
    rows=st.integers(1, 9),
    levels=st.sampled_from([2, 1000]),
)
def test_union_values_equal_sorting(seed: int, size: int, n: int, rows: int, levels: int) -> None:
    """Each entry is what the union of two parts keeps, also where a part has under n columns."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, levels, (5 * size, rows)) / levels
    parts = rng.permutation(5 * size).reshape(5, size)
    values = union_values(top_lists(columns, parts, n))
    for a in range(5):
        for b in range(a):
            union = columns[np.concatenate([parts[a], parts[b]])]
            kept = np.sort(union, axis=0)[-n:].sum()
            assert values[a, b] == pytest.approx(kept)
            assert values[b, a] == values[a, b]


def test_lists_are_sorted_and_filled_up() -> None:
    """A list holds the part's largest values in order, then zeros."""
    columns = np.random.default_rng(1).random((6, 4), dtype=np.float32)
    lists = top_lists(columns, np.array([[0, 5], [3, 2]]), 3)
    np.testing.assert_array_equal(lists[0, :2], np.sort(columns[[0, 5]], axis=0)[::-1])
    np.testing.assert_array_equal(lists[1, 2], np.zeros(4))


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing the matrix in blocks of rows and mirroring them changes but the last digits."""
    columns = np.random.default_rng(2).random((14, 6), dtype=np.float32)
    lists = top_lists(columns, np.arange(14).reshape(7, 2), 2)
    whole = union_values(lists)
    monkeypatch.setattr(pairs, "_BLOCK", 3)
    off = ~np.eye(7, dtype=bool)
    np.testing.assert_allclose(union_values(lists)[off], whole[off], rtol=1e-6)
