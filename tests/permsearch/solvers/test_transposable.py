"""Orders of transposable N:M: planted orders found again, gains everywhere, taps, any block."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.solvers import Transposable
from permsearch.testing import check_result


def planted(size: int, n: int, m: int, seed: int) -> np.ndarray:
    """Return a shuffled weight in whose planted order a transposable mask keeps what is large."""
    rng = np.random.default_rng(seed)
    mask = ps.TransposableNM(n, m).keep(rng.random((size, size)))
    weight = np.where(mask, 1 + rng.random((size, size)), 0.1)
    return np.asarray(weight[rng.permutation(size)][:, rng.permutation(size)], np.float32)


@pytest.mark.parametrize(
    ("n", "m", "steps"), [(1, 2, 40), (2, 4, 40), (1, 4, 40), (3, 4, 40), (2, 3, 40), (3, 6, 150)]
)
def test_it_gains_on_every_size(n: int, m: int, steps: int) -> None:
    """Whatever N and M, the orders keep more than the stored ones, and the result is honest."""
    weight = ps.instances.gaussian(8 * m, 6 * m, seed=m)
    pattern = ps.TransposableNM(n, m)
    result = ps.search(weight, pattern, stop=ps.MaxSteps(steps))
    gain = result.score / result.baseline - 1
    assert gain > 0.15 * (1 - n / m) * (0.5 if m > 4 else 1) / 4
    check_result(result, result.problem)


@pytest.mark.parametrize("seed", range(2))
def test_planted_orders_are_recovered(seed: int) -> None:
    """A mask planted in shuffled rows and columns of 24 is found again, up to what ties allow."""
    weight = planted(24, 2, 4, seed)
    result = ps.search(weight, "transposable:2:4", stop=ps.MaxSteps(300))
    assert result.score >= 0.97 * weight[weight > 0.5].sum()


def test_two_of_four_at_a_fixed_effort() -> None:
    """Forty steps on a Gaussian 128 x 128 recover more than half of what plain 2:4 is ahead."""
    weight = ps.instances.gaussian(128, 128, seed=2)
    result = ps.search(weight, "transposable:2:4", stop=ps.MaxSteps(40))
    plain = ps.parse_pattern("2:4").retained(np.abs(weight))
    assert result.score - result.baseline > 0.5 * (plain - result.baseline)


@pytest.mark.parametrize("axis", ["rows", "cols"])
@pytest.mark.parametrize("text", ["transposable:2:4", "transposable:4:8"])
def test_one_axis_alone_may_be_free(axis: str, text: str) -> None:
    """Only the free axis moves, and it gains."""
    weight = ps.instances.gaussian(32, 48, seed=5)
    result = ps.search(weight, text, permute=axis, stop=ps.MaxSteps(20))
    assert set(result.solution) == {axis}
    assert result.score > result.baseline
    check_result(result, result.problem)


@pytest.mark.parametrize("text", ["transposable:2:4", "transposable:3:8"])
def test_taps_share_both_orders(text: str) -> None:
    """A convolution has a mask for every tap, and one order of rows and of columns."""
    weight = ps.instances.gaussian(16, 16 * 3, seed=6).reshape(16, 16, 3)
    result = ps.search(weight, text, stop=ps.MaxSteps(30))
    assert result.score > result.baseline
    check_result(result, result.problem)


@pytest.mark.parametrize("text", ["transposable:2:4", "transposable:4:8"])
def test_a_run_limited_in_time_is_repeated_by_its_steps(text: str) -> None:
    """Whatever the clock allowed, so many steps give the same orders again."""
    weight = ps.instances.gaussian(48, 48, seed=7)
    timed = ps.search(weight, text, stop=ps.MaxCpuSeconds(0.2))
    again = ps.search(weight, text, stop=ps.MaxSteps(timed.steps))
    for name, order in timed.solution.items():
        assert np.array_equal(again.solution[name], order)


@pytest.mark.parametrize("options", [{"cold": 0.0}, {"hot": 0.01}, {"warm": 0.3}])
def test_temperatures_must_fall(options: dict[str, float]) -> None:
    """Options out of order are errors that name them."""
    with pytest.raises(ValueError, match="need 0 < cold <= warm <= hot"):
        Transposable(**options)
