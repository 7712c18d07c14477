"""Sums of absolute differences of bytes, with and without the vector instruction."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels import threads
from permsearch.kernels.psadbw import PAD, plain
from permsearch.kernels.sad import padded_bytes, sad_matrix, sad_pair

if TYPE_CHECKING:
    import pytest

Bytes = NDArray[np.uint8]


def filled(rng: np.random.Generator, rows: int, length: int) -> Bytes:
    """Return padded random bytes, extreme ones included."""
    out = padded_bytes(rows, length)
    out[:, :length] = rng.choice(np.array([0, 1, 7, 128, 254, 255], np.uint8), (rows, length))
    return out


def slow_sad(y: Bytes, a: Bytes) -> NDArray[np.int64]:
    """Return every sum of absolute differences, in 64-bit integers."""
    sums: NDArray[np.int64] = np.abs(y[:, None].astype(int) - a[None].astype(int)).sum(axis=2)
    return sums


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 110), st.sampled_from([1, 31, 32, 65, 400])),
    seed=st.integers(0, 9),
)
def test_sad_matrix_is_exact(shape: tuple[int, int, int], seed: int) -> None:
    """Any numbers of rows (also fewer than a tile) and any length: exact integers."""
    holes, columns, rows = shape
    rng = np.random.default_rng(seed)
    y, a = filled(rng, holes, rows), filled(rng, columns, rows)
    got = sad_matrix(y, a, np.full((holes, columns), -1, np.int32))
    assert (got == slow_sad(y, a)).all()


def test_plain_twin_computes_the_same_integers() -> None:
    """Without the instruction the same sums come out, pair and tile."""
    rng = np.random.default_rng(1)
    y, a = filled(rng, 3, 100), filled(rng, 4, 100)
    out = np.zeros((3, 4), np.int32)
    plain.tile(y, 0, a, 0, out)
    assert (out == slow_sad(y, a)).all()
    assert plain.pair(y, 2, a, 1) == out[2, 1]


def test_pair_is_callable_from_a_kernel() -> None:
    """One pair at a time gives the matrix's entry."""

    rng = np.random.default_rng(2)
    y, a = filled(rng, 2, 77), filled(rng, 1, 77)
    call: Any = numba.njit(lambda y, a: sad_pair(y, 1, a, 0))
    assert call(y, a) == slow_sad(y, a)[1, 0]


def test_sad_matrix_is_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splitting the rows over two threads changes nothing."""
    monkeypatch.setattr(threads, "_WORTH_SPLITTING", 0)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 2)
    rng = np.random.default_rng(3)
    y, a = filled(rng, 11, 64), filled(rng, 13, 64)
    assert (sad_matrix(y, a, np.empty((11, 13), np.int32)) == slow_sad(y, a)).all()


def test_rows_are_padded_and_aligned() -> None:
    """Rows are zero-padded to whole vectors and start at a cache line."""
    rows = padded_bytes(3, 33)
    assert rows.shape == (3, 2 * PAD)
    assert rows.ctypes.data % 64 == 0
    assert not rows.any()


def test_generic_processors_get_the_plain_kernels() -> None:
    """Compiling for a processor without AVX2 avoids the instruction and agrees."""
    code = (
        "import numpy as np; from permsearch.kernels.sad import *;"
        "y = padded_bytes(4, 50); y[:, :50] = np.arange(200).reshape(4, 50);"
        "out = sad_matrix(y, y, np.zeros((4, 4), np.int32));"
        "assert not HAS_PSADBW;"
        "assert (out == np.abs(y[:, None].astype(int) - y[None].astype(int)).sum(2)).all()"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
