"""Sweeps of annealing: bookkeeping exact, any split of a run the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch.kernels.anneal import anneal_memory, anneal_sweep
from permsearch.kernels.quantise import quantise
from permsearch.kernels.rng import seeded
from permsearch.kernels.swap_anneal import swap_anneal_sweep, swap_state

Bytes = NDArray[np.uint8]
CLASSES = [(1, 2), (1, 4), (2, 4), (3, 4), (2, 8), (5, 8), (8, 16)]


def kept(levels: Bytes, order: NDArray[np.int64], n: int, m: int) -> int:
    """Return the levels that an order keeps, by sorting."""
    groups = np.sort(levels[order].astype(int).reshape(-1, m, levels.shape[1]), axis=1)
    return int(groups[:, m - n :].sum())


def matrix(seed: int, groups: int, m: int, rows: int) -> NDArray[np.float32]:
    """Return columns with ties, zeros and a zero column."""
    columns = np.random.default_rng(seed).integers(0, 9, (groups * m, rows)).astype(np.float32)
    columns[0] = 0
    return columns


class Assignment:
    """A run of annealed assignment and what it carries along."""

    def __init__(
        self, levels: Bytes, shape: tuple[int, int], *, keep: bool = True, groups: int | None = None
    ) -> None:
        count = len(levels)
        self.levels = levels
        self.shape = (*shape, count // shape[1] if groups is None else groups)
        self.order, self.best = np.arange(count), np.arange(count)
        self.counts, self.rng = np.zeros(3, np.int64), seeded(5)
        self._rest: tuple[Any, ...] = (
            np.ones(count, np.float32),
            np.random.default_rng(0).standard_normal(4096, dtype=np.float32),
            np.zeros(count, np.float32),
            anneal_memory(levels, shape[1], prices=keep),
        )

    def go(self, noises: NDArray[np.float64]) -> None:
        """Do one step per noise."""
        weights, bank, duals, memory = self._rest
        noises = noises.astype(np.float32)
        state = (self.order, self.best, duals, self.counts, self.rng, memory)
        anneal_sweep(self.levels, self.shape, noises, weights, bank, *state)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.sampled_from(CLASSES),
    groups=st.integers(2, 7),
    rows=st.sampled_from([1, 40]),
    few=st.integers(2, 7),
    seed=st.integers(0, 99),
)
def test_assignment_counts_what_it_keeps(
    shape: tuple[int, int], groups: int, rows: int, few: int, seed: int
) -> None:
    """Orders stay permutations; the counted values are those of the orders; best is best."""
    n, m = shape
    levels, _ = quantise(matrix(seed, groups, m, rows), n, m)
    run = Assignment(levels, shape, groups=min(few, groups))
    start = kept(levels, run.order, n, m)
    run.go(np.linspace(300, 0, 60))
    for order, count in ((run.order, run.counts[0]), (run.best, run.counts[1])):
        assert sorted(order) == list(range(groups * m))
        assert 2 * (kept(levels, order, n, m) - start) == count
    assert run.counts[1] >= max(run.counts[0], 0)


@pytest.mark.parametrize("cuts", [[], [1], [150], [37, 38, 120], list(range(1, 200, 7))])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("groups", [9, 4])
def test_any_split_into_sweeps_is_the_same_run(cuts: list[int], keep: bool, groups: int) -> None:
    """However a run is cut, and whether or not prices are kept: the same orders and values."""
    levels, _ = quantise(matrix(1, 9, 4, 70), 2, 4)
    noises = np.concatenate([np.linspace(60, 5, 150), np.zeros(50)])
    whole = Assignment(levels, (2, 4), groups=groups)
    parts = Assignment(levels, (2, 4), keep=keep, groups=groups)
    whole.go(noises)
    for part in np.split(noises, cuts):
        parts.go(part)
    assert (whole.order == parts.order).all()
    assert (whole.best == parts.best).all()
    assert (whole.counts == parts.counts).all()


def test_without_noise_values_never_fall() -> None:
    """Steps without noise are accepted only where they gain."""
    levels, _ = quantise(matrix(2, 8, 4, 50), 2, 4)
    run = Assignment(levels, (2, 4))
    before = 0
    for _ in range(20):
        run.go(np.zeros(1))
        assert run.counts[0] >= before
        before = run.counts[0]
    assert before > 0


@settings(max_examples=40, deadline=None)
@given(
    shape=st.sampled_from([*CLASSES, (8, 32), (24, 32)]),
    groups=st.integers(2, 5),
    rows=st.sampled_from([1, 40]),
    seed=st.integers(0, 99),
)
def test_swaps_count_what_they_keep(
    shape: tuple[int, int], groups: int, rows: int, seed: int
) -> None:
    """Swap annealing keeps permutations and exact values of the current and the best order."""
    n, m = shape
    levels, _ = quantise(matrix(seed, groups, m, rows), n, m)
    order = np.arange(groups * m)
    best = order.copy()
    state = swap_state(levels, order, n, m)
    swap_anneal_sweep(levels, shape, np.linspace(200, 0, 20), order, best, state, seeded(seed))
    for found, count in ((order, state[4][0]), (best, state[4][1])):
        assert sorted(found) == list(range(groups * m))
        assert 2 * kept(levels, found, n, m) == count


def test_any_split_of_swaps_is_the_same_run() -> None:
    """Cutting swap annealing into sweeps changes nothing."""
    levels, _ = quantise(matrix(3, 5, 4, 33), 2, 4)
    temperatures = np.linspace(100, 0, 60)
    ends = []
    for cuts in ([], [1, 30, 31]):
        order, best, rng = np.arange(20), np.arange(20), seeded(1)
        state = swap_state(levels, order, 2, 4)
        for part in np.split(temperatures, cuts):
            swap_anneal_sweep(levels, (2, 4), part, order, best, state, rng)
        ends.append((order, best))
    assert (ends[0][0] == ends[1][0]).all()
    assert (ends[0][1] == ends[1][1]).all()
