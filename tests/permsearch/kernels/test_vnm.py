"""Kernels of V:N:M search price what the masks of the moved weight keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permsearch.kernels.vnm import pair_numbers, set_count
from permsearch.kernels.vnm_columns import hole_prices
from permsearch.kernels.vnm_exchange import exchange_prices, exchange_rows, list_sets
from permsearch.kernels.vnm_rows import live_sets, row_benefits, turn
from permsearch.solvers._vnm_chain import set_pairs
from tests import reference_vnm as reference
from tests import strategies

shapes = st.tuples(st.integers(1, 3), st.integers(2, 3), st.integers(2, 3), st.integers(5, 7))


def drawn(shape: tuple[int, int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores (taps * rows, columns) and orders of columns and rows for a shape."""
    v, strips, groups, m = shape
    rng = np.random.default_rng(seed)
    taps = int(rng.integers(1, 3))
    scores = rng.random((taps * v * strips, groups * m), np.float32)
    return scores, rng.permutation(groups * m), rng.permutation(v * strips)


def stored(scores: np.ndarray, cols: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the scores in stored order, rows alike in every tap."""
    taps = len(scores) // len(rows)
    return np.concatenate([part[rows][:, cols] for part in np.split(scores, taps)])


@given(shape=shapes, seed=strategies.seeds)
def test_live_sets_and_benefits(shape: tuple[int, int, int, int], seed: int) -> None:
    """The live columns are the twin's; a row is worth what it keeps of them, over all taps."""
    v, strips, groups, m = shape
    scores, cols, rows = drawn(shape, seed)
    taps = len(scores) // len(rows)
    moved = stored(scores, np.arange(len(cols)), rows)
    columns = np.empty(scores.shape[::-1], np.float32)
    turn(scores, rows, columns)
    assert np.array_equal(columns, moved.T)
    live = np.empty((taps * strips, groups, 4), np.int64)
    total = live_sets(columns, cols, v, pair_numbers(m), live)
    assert total == pytest.approx(reference.retained_vnm(moved[:, cols], v, m), rel=1e-5)
    for t in range(taps * strips):
        for g in range(groups):
            block = moved[t * v : t * v + v][:, cols[g * m : g * m + m]]
            expected = reference.live_columns(block)
            assert cols[g * m : g * m + m][list(expected)].tolist() == live[t, g].tolist()
    benefits = np.empty((strips, len(rows)), np.float32)
    row_benefits(columns, live, len(rows), benefits)
    for t in range(strips):
        for r in range(len(rows)):
            kept = sum(
                np.sort(moved[k * len(rows) + r, live[k * strips + t]], axis=1)[:, 2:].sum()
                for k in range(taps)
            )
            assert benefits[t, r] == pytest.approx(kept, rel=1e-5)


@given(shape=shapes, seed=strategies.seeds)
def test_holes_are_priced_exactly_when_all_triples_are_tried(
    shape: tuple[int, int, int, int], seed: int
) -> None:
    """Prices are the values of groups after the exchange; with few triples, lower limits of them.

    The present order's own prices are exact in any case.
    """
    v, _, groups, m = shape
    scores, cols, rows = drawn(shape, seed)
    moved = stored(scores, np.arange(len(cols)), rows)
    columns = np.ascontiguousarray(moved.T)
    place = np.arange(groups) * m + np.random.default_rng(seed).integers(0, m, groups)
    triples = (m - 1) * (m - 2) * (m - 3) // 6
    exact, rough = np.empty((2, groups, groups), np.float32)
    hole_prices(columns, cols, place, v, pair_numbers(m - 1), triples // 4 * 4, exact)
    hole_prices(columns, cols, place, v, pair_numbers(m - 1), 4, rough)
    for g in range(groups):
        for h in range(groups):
            tried = cols.copy()
            tried[place[g]] = cols[place[h]]
            group = moved[:, tried[g * m : g * m + m]]
            expected = reference.retained_vnm(group, v, m)
            assert rough[g, h] <= expected * (1 + 1e-5)
            if g == h or triples % 4 == 0:
                assert exact[g, h] == pytest.approx(expected, rel=1e-5)
        assert rough[g, g] == pytest.approx(exact[g, g], rel=1e-5)


@given(shape=shapes, seed=strategies.seeds)
def test_exchanges_are_priced_exactly_when_all_sets_are_listed(
    shape: tuple[int, int, int, int], seed: int
) -> None:
    """Prices are the values of strips after the exchange, and the lists follow it."""
    v, strips, groups, m = shape
    scores, cols, rows = drawn(shape, seed)
    taps = len(scores) // len(rows)
    rng = np.random.default_rng(seed)
    sets = (taps * strips, groups, set_count(m))
    best, worth = np.empty(sets, np.int64), np.empty(sets, np.float32)
    list_sets(scores, cols, rows, v, pair_numbers(m), best, worth)
    place = np.arange(strips) * v + rng.integers(0, v, strips)
    prices = np.empty((strips, strips), np.float32)
    picked, near = rows[place], np.float32(1e9)
    exchange_prices(scores, cols, picked, set_pairs(m), near, best, worth, prices)

    def value(strip: int, order: np.ndarray) -> float:
        own = order[strip * v : strip * v + v]
        parts = [part[own][:, cols] for part in np.split(scores, taps)]
        return sum(reference.retained_vnm(part, v, m) for part in parts)

    for t in range(strips):
        for u in range(strips):
            tried = rows.copy()
            tried[place[t]] = picked[u]
            assert prices[t, u] == pytest.approx(value(t, tried), rel=1e-5)
    joins = rng.permutation(strips)
    exchange_rows(scores, cols, picked, joins, set_pairs(m), best, worth)
    after = rows.copy()
    after[place] = picked[joins]
    kept = sum(value(t, after) for t in range(strips))
    assert worth.max(axis=2).sum(dtype=float) == pytest.approx(kept, rel=1e-5)
