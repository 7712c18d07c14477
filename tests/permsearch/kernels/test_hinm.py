"""Kernels of hierarchical N:M: sums and benefits, and tiles that stay consistent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permsearch.kernels.hinm import fill_costs, tile_steps
from permsearch.kernels.hinm_rows import inner_products, tile_sums, vector_benefits
from permsearch.kernels.rng import seeded
from tests import reference_hinm as reference
from tests import strategies


@given(seed=strategies.seeds, taps=st.integers(1, 3), tiles=st.integers(1, 3), v=st.integers(1, 4))
def test_sums_and_products_are_those_of_numpy(seed: int, taps: int, tiles: int, v: int) -> None:
    """Tiles' sums, what rows hold of kept vectors over all taps, and inner products."""
    rng = np.random.default_rng(seed)
    height, width = tiles * v, int(rng.integers(1, 9))
    scores = rng.random((taps, height, width), np.float32)
    rows = rng.permutation(height)
    sums = np.empty((taps * tiles, width), np.float32)
    tile_sums(scores.reshape(-1, width), rows, v, sums)
    expected = scores[:, rows].reshape(taps * tiles, v, width).sum(axis=1)
    assert sums == pytest.approx(expected, rel=1e-5)
    kept = int(rng.integers(1, width + 1))
    live = np.stack([rng.permutation(width)[:kept] for _ in range(taps * tiles)])
    benefits = np.empty((tiles, height), np.float32)
    vector_benefits(np.ascontiguousarray(scores.transpose(0, 2, 1)), live, benefits)
    for t in range(tiles):
        held = sum(scores[k][:, live[k * tiles + t]].sum(axis=1) for k in range(taps))
        assert benefits[t] == pytest.approx(held, rel=1e-5)
    products = np.empty((height, height), np.float32)
    inner_products(scores[0], scores[-1], products)
    assert products == pytest.approx(scores[0] @ scores[-1].T, rel=1e-4)


@given(seed=strategies.seeds, holes=st.integers(1, 5), more=st.integers(0, 6))
def test_costs_are_sums_of_maxima(seed: int, holes: int, more: int) -> None:
    """Odd numbers of holes and candidates are priced like even ones."""
    rng = np.random.default_rng(seed)
    columns = rng.random((20, 7), np.float32)
    y = rng.random((holes, 7), np.float32)
    candidates = rng.permutation(20)[: holes + more]
    worth = np.empty((holes, len(candidates)), np.float32)
    fill_costs(y, columns, candidates, worth)
    assert worth == pytest.approx(np.maximum(y[:, None], columns[candidates]).sum(2), rel=1e-5)


@given(
    seed=strategies.seeds,
    m=st.integers(1, 5),
    groups=st.integers(1, 3),
    dropped=st.integers(0, 5),
    entering=st.integers(0, 3),
    hot=st.sampled_from([0.0, 0.5]),
)
def test_tiles_stay_consistent(
    seed: int, m: int, groups: int, dropped: int, entering: int, hot: float
) -> None:
    """After any steps every column is kept or dropped once, and the values are those kept.

    Without noise nothing is lost; with re-entry the best is never above the optimum.
    """
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(1, m + 1)), m * groups + dropped
    columns = rng.random((width, int(rng.integers(1, 5))), np.float32)
    order = rng.permutation(width)
    own, left = order[: m * groups].reshape(groups, m).copy(), order[m * groups :].copy()
    start = reference.kept_of(columns.T, own.ravel().tolist(), n, m)
    values, best = np.array([start, start, -1.0]), own.copy()
    bank = rng.standard_normal(64, dtype=np.float32)
    noises = np.concatenate([np.full(3, hot), np.zeros(4)])
    tile_steps(columns, own, left, n, entering, noises, bank, values, best, seeded(seed))
    assert sorted([*own.ravel(), *left]) == list(range(width))
    assert values[0] == pytest.approx(reference.kept_of(columns.T, own.ravel().tolist(), n, m))
    assert values[1] == pytest.approx(reference.kept_of(columns.T, best.ravel().tolist(), n, m))
    assert values[1] >= max(start, values[0])
    if hot == 0:
        assert values[0] >= start
    if width <= 6:
        most = reference.best_of_tile(columns.T, m * groups, n, m)
        assert values[1] <= most * (1 + 1e-6)


def test_without_noise_the_bank_is_not_looked_at() -> None:
    """What is not a number there once made costs that led the assignment out of its arrays."""
    rng = np.random.default_rng(1)
    columns = rng.random((24, 8), np.float32)
    found = []
    for fill in (0.0, np.nan, np.inf, 1e38):
        groups, dropped = np.arange(16).reshape(4, 4).copy(), np.arange(16, 24)
        values, best = np.array([0.0, 0.0, -1.0]), groups.copy()
        bank = np.full(64, fill, np.float32)
        tile_steps(columns, groups, dropped, 2, 2, np.zeros(9), bank, values, best, seeded(3))
        found.append(best.tolist())
    assert found.count(found[0]) == len(found)
