"""What a hole in a group needs, against sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels.holes import fill_hole, hole_from_levels, two_levels

CLASSES = [(n, m) for m in range(2, 9) for n in range(1, m)]
CLASSES += [(1, 16), (8, 16), (15, 16), (1, 32), (8, 32), (16, 32), (24, 32), (31, 32)]


def group(seed: int, m: int, rows: int, kind: Any) -> NDArray[Any]:
    """Return a group's columns with zeros and ties."""
    values = np.random.default_rng(seed).integers(0, 7, (m, rows))
    return values.astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@settings(max_examples=60, deadline=None)
@given(shape=st.sampled_from(CLASSES), rows=st.sampled_from([1, 33, 64]), seed=st.integers(0, 99))
def test_fill_hole_is_the_nth_largest(
    kind: Any, shape: tuple[int, int], rows: int, seed: int
) -> None:
    """For all classes, ties and zeros: the n-th largest of the other m - 1 values."""
    n, m = shape
    columns = group(seed, m, rows, kind)
    scratch = np.empty(((m + 1) // 2 + 1, rows), kind)
    got, carry = np.empty((2, rows), kind)
    for place in range(m):
        rest = np.delete(np.arange(m), place)
        fill_hole(columns, rest, n, scratch, carry, got)
        assert (got == np.sort(columns[rest], axis=0)[::-1][n - 1]).all()


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@settings(max_examples=60, deadline=None)
@given(shape=st.sampled_from(CLASSES), rows=st.sampled_from([1, 33, 64]), seed=st.integers(0, 99))
def test_all_holes_follow_from_two_levels(
    kind: Any, shape: tuple[int, int], rows: int, seed: int
) -> None:
    """The holes of a group and the sums above them, from two order statistics."""
    n, m = shape
    columns = group(seed, m, rows, kind)
    levels = np.empty((n + 1, rows), kind)
    got, carry = np.empty((2, rows), kind)
    total = two_levels(columns, np.arange(m), n, levels, carry)
    assert total == np.sort(columns, axis=0)[m - n :].sum()
    for place in range(m):
        above = total - hole_from_levels(columns[place], levels[n - 1], levels[n], got)
        others = np.sort(np.delete(columns, place, axis=0), axis=0)[::-1]
        assert (got == others[n - 1]).all()
        assert above == others[: n - 1].sum()
