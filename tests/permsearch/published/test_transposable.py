"""Published transposable rules: flow is exact, the others are what they promise."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.patterns import NM, TransposableNM
from permsearch.published.transposable import entropic_mask, flow_mask, two_approximation_mask

SIZES = [(2, 4), (1, 4), (3, 4), (3, 8), (8, 16)]


def kept(scores: np.ndarray, mask: np.ndarray) -> float:
    """Return the sum of what a mask keeps."""
    return float(scores[mask].sum(dtype=np.float64))


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("kind", ["gaussian", "student_t"])
def test_flow_finds_what_cancelling_cycles_finds(n: int, m: int, kind: str) -> None:
    """Two unlike exact methods agree to the flow's integer costs, at one half and elsewhere."""
    scores = np.abs(ps.instances.instance(kind, 2 * m, 3 * m, seed=m))
    pattern = TransposableNM(n, m)
    mask = flow_mask(scores, pattern)
    assert pattern.accepts(mask)
    assert mask.mean() == pytest.approx(n / m)
    value = pattern.retained(scores)
    assert value * (1 - 1e-5) <= kept(scores, mask) <= value * (1 + 1e-12)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_two_approximation_drops_less_than_twice_the_least(n: int, m: int) -> None:
    """The mask is N:M in both directions, and what it drops is below twice the optimum's."""
    scores = np.abs(ps.instances.gaussian(4 * m, 4 * m, seed=n))
    pattern = TransposableNM(n, m)
    mask = two_approximation_mask(scores, pattern)
    assert NM(n, m).accepts(mask)
    assert NM(n, m).accepts(mask.T)
    total = float(scores.sum(dtype=np.float64))
    least = total - pattern.retained(scores)
    assert least <= total - kept(scores, mask) <= 2 * least


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_entropic_masks_come_close(n: int, m: int) -> None:
    """Rounding and repair keep N:M in both directions and lose less than two per cent."""
    scores = np.abs(ps.instances.gaussian(4 * m, 4 * m, seed=n)).astype(np.float64)
    pattern = TransposableNM(n, m)
    mask = entropic_mask(scores, pattern)
    assert NM(n, m).accepts(mask)
    assert NM(n, m).accepts(mask.T)
    # a mask that is not full may hold a little more than the best full one
    assert 0.98 * pattern.retained(scores) <= kept(scores, mask) <= 1.01 * pattern.retained(scores)


@pytest.mark.parametrize("rule", [flow_mask, two_approximation_mask, entropic_mask])
def test_blocks_are_cut_from_rows_and_columns(rule: object) -> None:
    """Each block is masked by itself, every tap too: no rule flattens rows."""
    assert callable(rule)
    scores = np.abs(ps.instances.gaussian(8, 24, seed=5)).reshape(8, 8, 3).astype(np.float64)
    pattern = TransposableNM(2, 4)
    whole = rule(scores, pattern)
    for tap in range(3):
        for r in (0, 4):
            for c in (0, 4):
                block = np.ascontiguousarray(scores[r : r + 4, c : c + 4, tap])
                part = whole[r : r + 4, c : c + 4, tap]
                assert np.array_equal(rule(block, pattern), part)


@pytest.mark.parametrize("rule", [flow_mask, two_approximation_mask, entropic_mask])
def test_zeros_ties_and_half_precision_are_masked(rule: object) -> None:
    """A weight of zeros, of one value alone or of float16 gets a mask like any other."""
    assert callable(rule)
    half = np.random.default_rng(0).random((8, 8)).astype(np.float16)
    for scores in (np.zeros((8, 8)), np.ones((8, 8)), half):
        mask = rule(scores, TransposableNM(4, 8))
        assert NM(4, 8).accepts(mask)
        assert NM(4, 8).accepts(mask.T)
