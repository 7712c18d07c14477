"""TETRIS: swaps of the largest gain for fixed blocks, then other blocks, until nothing gains."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.kernels.blocks_tetris import greedy_swaps
from permsearch.testing import check_result


def swapped(benefit: np.ndarray, order: list[int], size: int) -> list[int]:
    """Return the order after the best of all swaps, again and again: the slow twin."""
    order = list(order)
    while True:
        best, pair = 1e-5, None
        for p in range(len(order)):
            for q in range(p):
                g, h, i, j = p // size, q // size, order[p], order[q]
                gain = benefit[i, h] + benefit[j, g] - benefit[i, g] - benefit[j, h]
                if g != h and gain > best:
                    best, pair = float(gain), (p, q)
        if pair is None:
            return order
        p, q = pair
        order[p], order[q] = order[q], order[p]


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_swap_comes_first(seed: int) -> None:
    """The table of pairs of groups finds the swaps that looking at all pairs of items finds."""
    benefit = np.random.default_rng(seed).random((12, 4)).astype(np.float32)
    order = np.arange(12)
    greedy_swaps(benefit, order, 3, 1000)
    assert order.tolist() == swapped(benefit.astype(np.float64), list(range(12)), 3)


def test_swaps_are_counted_and_limited() -> None:
    """No more swaps are done than allowed, and their number is told."""
    benefit = np.random.default_rng(1).random((12, 4)).astype(np.float32)
    order = np.arange(12)
    assert greedy_swaps(benefit, order, 3, 1) == 1
    assert (order != np.arange(12)).sum() == 2


@pytest.mark.parametrize("kept", [0.1, 0.25, 0.5, 0.75])
def test_it_gains_at_every_share_and_ends_by_itself(kept: float) -> None:
    """The loss is that of the blocks dropped, not only at one half; the end is a fixed point."""
    weight = ps.instances.gaussian(64, 48, seed=2)
    pattern = ps.Block((8, 8), kept)
    result = ps.search(weight, pattern, solver="tetris")
    assert result.status is ps.Status.CONVERGED
    assert result.score > result.baseline
    again = ps.search(weight, pattern, solver="tetris", start=result.solution)
    assert again.score == pytest.approx(result.score)
    assert again.status is ps.Status.CONVERGED


def test_one_axis_alone_may_be_free() -> None:
    """Only the axis that is free moves."""
    weight = ps.instances.gaussian(32, 32, seed=4)
    result = ps.search(weight, "block:4x4@0.25", solver="tetris", permute="rows")
    assert set(result.solution) == {"rows"}
    assert result.score > result.baseline
    check_result(result, result.problem)


def test_taps_share_the_order_of_channels() -> None:
    """Blocks of a convolution gain by one order of its input channels for all taps."""
    weight = ps.instances.gaussian(16, 16 * 9, seed=5).reshape(16, 16, 3, 3)
    result = ps.search(weight, "block:4x4@0.25", solver="tetris")
    assert result.score > result.baseline
    check_result(result, result.problem)


def test_other_patterns_are_refused() -> None:
    """It says that it knows blocks only, and where to go."""
    with pytest.raises(ps.UnsupportedProblem, match="auto"):
        ps.search(np.ones((8, 8)), "unaligned:2@0.5", solver="tetris")
