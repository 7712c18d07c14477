"""The table of all swaps: exact entries, exact gains, the best found, only true gains applied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels.l1 import summax
from permsearch.kernels.swap import (
    NEVER,
    apply_swaps,
    best_partners,
    group_holes,
    improving_pairs,
    set_rows,
)
from permsearch.kernels.value import group_value, group_values

Floats = NDArray[np.floating]


def table(columns: Floats, order: NDArray[np.int64], n: int, m: int) -> tuple[Floats, Floats]:
    """Return the values of all swaps and each column's own, by the kernels."""
    count = len(columns)
    holes, above = np.empty_like(columns), np.empty(count)
    group_holes(columns, order, np.arange(count // m), n, m, holes, above)
    values, own = np.empty((count, count), np.float32), np.empty(count, np.float32)
    part = summax(holes, columns, np.empty((count, count), np.float32))
    set_rows(values, own, order, part, above, np.zeros(count, np.float32), m)
    return values, own


def swapped_value(
    columns: Floats, order: NDArray[np.int64], n: int, m: int, p: int, q: int
) -> float:
    """Return the value of the order with two places exchanged, by sorting."""
    other = order.copy()
    other[[p, q]] = other[[q, p]]
    groups = columns[other].astype(np.float64).reshape(-1, m, columns.shape[1])
    return float(np.sort(groups, axis=1)[:, m - n :].sum())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 2), (2, 4), (1, 4), (3, 4), (2, 3), (3, 5), (4, 8), (31, 32)]),
    groups=st.integers(2, 4),
    rows=st.integers(1, 9),
    levels=st.sampled_from([2, 5, 10_000]),
)
def test_gains_equal_revaluation(
    seed: int, shape: tuple[int, int], groups: int, rows: int, levels: int
) -> None:
    """The gain of every swap from the table equals valuing the swapped order anew."""
    n, m = shape
    rng = np.random.default_rng(seed)
    count = groups * m
    columns = (rng.integers(0, levels, (count, rows)) / levels).astype(np.float32)
    order = rng.permutation(count)
    values, own = table(columns, order, n, m)
    present = swapped_value(columns, order, n, m, 0, 0)
    best, partner = np.empty(count, np.float32), np.empty(count, np.int64)
    best_partners(values, own, best, partner)
    gains = np.full((count, count), -np.inf)
    for p in range(count):
        for q in range(count):
            if p // m != q // m:
                gains[order[p], order[q]] = swapped_value(columns, order, n, m, p, q) - present
                a, b = order[p], order[q]
                gain = values[a, b] + values[b, a] - own[a] - own[b]
                assert gain == pytest.approx(gains[a, b], abs=1e-4)
    later = np.triu(np.ones((count, count), dtype=bool), 1)
    tops = np.where(later, gains, -np.inf).max(axis=1)
    np.testing.assert_allclose(best[np.isfinite(tops)], tops[np.isfinite(tops)], atol=1e-4)
    assert (best[~np.isfinite(tops)] < NEVER / 2).all()


def test_best_partner_beyond_one_block() -> None:
    """Blocks of 64 columns do not hide a partner: the best swap of 150 columns is found."""
    rng = np.random.default_rng(5)
    values = rng.random((150, 150), dtype=np.float32)
    own = rng.random(150, dtype=np.float32)
    best, partner = np.empty(150, np.float32), np.empty(150, np.int64)
    best_partners(values, own, best, partner)
    gains = values + values.T - own - own[:, None]
    for a in range(149):
        assert best[a] == pytest.approx(gains[a, a + 1 :].max(), abs=1e-5)
        assert gains[a, partner[a]] == pytest.approx(best[a], abs=1e-5)


def test_improving_pairs_lists_all() -> None:
    """Every pair above the limit is listed with its gain, and no other."""
    rng = np.random.default_rng(6)
    values = rng.random((20, 20), dtype=np.float32)
    own = np.full(20, np.float32(0.9))
    gains = np.triu(values + values.T - np.float32(1.8), 1)
    found = {(a, b) for a, b, _ in improving_pairs(values, own, 0.0)}
    assert found == {(int(a), int(b)) for a, b in np.argwhere(gains > 0)}


def test_only_confirmed_swaps_of_fresh_groups_are_applied() -> None:
    """A swap that loses is refuted, one whose group has changed waits, the rest are applied."""
    rng = np.random.default_rng(7)
    columns = rng.random((16, 11), dtype=np.float32)
    order = rng.permutation(16)
    position = np.argsort(order)
    current = group_values(columns, order, 2, 4)
    values, own = table(columns, order, 2, 4)
    pairs = sorted(improving_pairs(values, own, -np.inf), key=lambda pair: -pair[2])
    pairs = [pair for pair in pairs if pair[2] > NEVER / 2]
    tried = [pairs[0], pairs[1], pairs[-1]]
    left, right = (np.array([pair[k] for pair in tried], dtype=np.int64) for k in (0, 1))
    before = current.sum()
    verdict, touched = apply_swaps(columns, order, position, left, right, (2, 4, 0.0), current)
    assert verdict[0] == 1
    assert verdict[2] in {-1, 0}
    assert current.sum() > before
    assert touched.sum() in {2, 4}
    np.testing.assert_array_equal(position, np.argsort(order))
    np.testing.assert_allclose(current, group_values(columns, order, 2, 4))


@pytest.mark.parametrize(("n", "m"), [(2, 4), (1, 3), (5, 8)])
def test_holes_in_bytes_are_those_of_the_integers(n: int, m: int) -> None:
    """The same kernel on bytes gives integer holes and sums: each column back in its place fits."""
    rng = np.random.default_rng(8)
    columns = rng.integers(0, 256, (3 * m, 32)).astype(np.uint8)
    order = rng.permutation(3 * m)
    holes, above = np.empty_like(columns), np.empty(3 * m)
    group_holes(columns, order, np.arange(3), n, m, holes, above)
    for p, column in enumerate(order):
        kept = np.maximum(holes[p], columns[column]).sum(dtype=np.int64) + above[p]
        g = p // m
        assert kept == group_value(columns.astype(np.float32), order[g * m : (g + 1) * m], n)
