"""The matrix of sums of maxima, against numpy in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels import threads
from permsearch.kernels.l1 import summax

if TYPE_CHECKING:
    import pytest


def slow_summax(y: NDArray[Any], a: NDArray[Any]) -> NDArray[np.float64]:
    """Return every sum of maxima, in float64."""
    sums: NDArray[np.float64] = np.maximum(y[:, None].astype(float), a[None]).sum(axis=2)
    return sums


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 70), st.sampled_from([1, 7, 33, 1025])),
    seed=st.integers(0, 9),
)
def test_summax_is_the_sum_of_maxima(shape: tuple[int, int, int], seed: int) -> None:
    """Odd shapes, one row, more rows than a block: every entry agrees with float64."""
    holes, columns, rows = shape
    rng = np.random.default_rng(seed)
    y = rng.random((holes, rows), dtype=np.float32)
    a = rng.random((columns, rows), dtype=np.float32)
    got = summax(y, a, np.full((holes, columns), np.nan, np.float32))
    np.testing.assert_allclose(got, slow_summax(y, a), rtol=1e-5)


def test_summax_has_the_same_bits_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splitting the rows over two threads changes no bit."""
    monkeypatch.setattr(threads, "_WORTH_SPLITTING", 0)
    rng = np.random.default_rng(0)
    y = rng.random((37, 1030), dtype=np.float32)
    a = rng.random((29, 1030), dtype=np.float32)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 1)
    one = summax(y, a, np.empty((37, 29), np.float32))
    monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
    two = summax(y, a, np.empty((37, 29), np.float32))
    assert (one == two).all()


def test_float64_columns_are_summed_in_float64() -> None:
    """No sum is narrowed on the way where the columns are float64."""
    rng = np.random.default_rng(1)
    y, a = rng.random((5, 1100)), rng.random((9, 1100))
    got = summax(y, a, np.empty((5, 9)))
    np.testing.assert_allclose(got, slow_summax(y, a), rtol=1e-13)
