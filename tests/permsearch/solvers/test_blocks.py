"""Annealing of blocks: above TETRIS, planted blocks found again, one axis or both, taps."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.solvers import Blocks
from permsearch.testing import check_result


def planted(rows: int, cols: int, side: int, seed: int) -> np.ndarray:
    """Return a shuffled weight whose heavy blocks of `side` x `side` fill a quarter of it."""
    rng = np.random.default_rng(seed)
    heavy = rng.permutation(rows * cols // side**2) < rows * cols // side**2 // 4
    scale = np.kron(heavy.reshape(rows // side, cols // side), np.ones((side, side)))
    weight = (0.1 + scale) * (1 + 0.1 * rng.random((rows, cols)))
    return np.asarray(weight[rng.permutation(rows)][:, rng.permutation(cols)], np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_planted_blocks_are_recovered(seed: int) -> None:
    """Both orders of a weight with clear blocks are found again, exactly."""
    weight = planted(48, 64, 8, seed)
    result = ps.search(weight, "block:8x8@0.25", solver="blocks", stop=ps.MaxSteps(400))
    heavy = np.sort(weight, axis=None)[-weight.size // 4 :].sum(dtype=np.float64)
    assert result.score == pytest.approx(heavy, rel=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "lognormal_columns"])
@pytest.mark.parametrize("text", ["block:8x8@0.25", "block:4x16@0.5", "block:16x2@0.1"])
def test_it_keeps_more_than_tetris(kind: str, text: str) -> None:
    """With a hundred steps it is above what TETRIS ends with."""
    weight = ps.instances.instance(kind, 128, 96, seed=1)
    tetris = ps.search(weight, text, solver="tetris")
    ours = ps.search(weight, text, solver="blocks", stop=ps.MaxSteps(100))
    assert ours.score > tetris.score > tetris.baseline


def test_a_large_gaussian_is_no_fixed_point() -> None:
    """Rows that like their own blocks best, since these were chosen by them, still move."""
    weight = ps.instances.gaussian(512, 512, seed=3)
    result = ps.search(weight, "block:16x16@0.25", solver="blocks", stop=ps.MaxSteps(80))
    assert result.retained > 0.29 > 0.27 > result.share(result.baseline)


@pytest.mark.parametrize("axis", ["rows", "cols"])
def test_one_axis_alone_may_be_free(axis: str) -> None:
    """Only the free axis moves, and it gains."""
    weight = ps.instances.gaussian(64, 64, seed=5)
    result = ps.search(
        weight, "block:8x8@0.25", solver="blocks", permute=axis, stop=ps.MaxSteps(60)
    )
    assert set(result.solution) == {axis}
    assert result.score > result.baseline
    check_result(result, result.problem)


def test_taps_share_the_order_of_channels() -> None:
    """A convolution's planted blocks are found although its taps move together."""
    rng = np.random.default_rng(0)
    taps = [np.kron(rng.permutation(16).reshape(4, 4) < 4, np.ones((8, 8))) for _ in range(4)]
    weight = (0.1 + np.stack(taps, axis=-1)).reshape(32, 32, 2, 2)
    shuffled = weight[rng.permutation(32)][:, rng.permutation(32)]
    result = ps.search(shuffled, "block:8x8@0.25", stop=ps.MaxSteps(300))
    expected = ps.parse_pattern("block:8x8@0.25").retained(weight)
    assert result.score == pytest.approx(expected)
    check_result(result, result.problem)


def test_columns_of_unaligned_blocks_gain() -> None:
    """Columns that are large together become neighbours: more than free starts alone keep."""
    weight = ps.instances.gaussian(96, 64, seed=6)
    result = ps.search(weight, "unaligned:4@0.25", stop=ps.MaxSteps(60))
    assert result.score > 1.01 * result.baseline
    check_result(result, result.problem)
    odd = ps.search(weight[:, :62], "unaligned:4@0.25", stop=ps.MaxSteps(60))
    assert odd.score > odd.baseline


@pytest.mark.parametrize("shape", [(5, 3, 3, 3), (5, 7, 2), (4, 8, 3), (1, 9)], ids=str)
@pytest.mark.parametrize("kept", [0.45, 0.9, 1.0])
def test_unaligned_blocks_of_few_channels(shape: tuple[int, ...], kept: float) -> None:
    """Channels too few for two blocks fall back to swaps; shares above what is aligned are kept."""
    weight = ps.instances.gaussian(shape[0], int(np.prod(shape[1:])), seed=1).reshape(shape)
    problem = ps.single(weight, ps.UnalignedBlock(4, kept))
    refusal = Blocks().supports(problem)
    assert (refusal is not None and "too few" in refusal) == (shape[1] < 8)
    for stop in (ps.MaxSteps(30), ps.MaxCpuSeconds(0.02)):
        check_result(ps.solve(problem, stop=stop), problem)


def test_a_run_limited_in_time_is_repeated_by_its_steps() -> None:
    """Whatever the clock allowed, so many steps give the same orders again."""
    weight = ps.instances.gaussian(96, 96, seed=7)
    timed = ps.search(weight, "block:8x8@0.25", solver="blocks", stop=ps.MaxCpuSeconds(0.3))
    again = ps.search(weight, "block:8x8@0.25", solver="blocks", stop=ps.MaxSteps(timed.steps))
    assert again.steps == timed.steps
    for name, order in timed.solution.items():
        assert np.array_equal(again.solution[name], order)


def test_scaling_the_scores_changes_no_order() -> None:
    """Tiny and huge weights are searched like any other."""
    weight = ps.instances.gaussian(32, 32, seed=8).astype(np.float64)
    results = [
        ps.search(np.ldexp(weight, e), "block:4x4@0.25", solver="blocks", stop=ps.MaxSteps(20))
        for e in (-300, 0, 300)
    ]
    for result in results:
        assert np.array_equal(result.solution["rows"], results[1].solution["rows"])
        assert np.array_equal(result.solution["cols"], results[1].solution["cols"])


@pytest.mark.parametrize(
    "options", [{"cold": 0.0}, {"hot": 0.01}, {"warm": 0.3}, {"hot": float("inf")}]
)
def test_temperatures_must_fall(options: dict[str, float]) -> None:
    """Options out of order are errors that name them."""
    with pytest.raises(ValueError, match="need 0 < cold <= warm <= hot"):
        Blocks(**options)
