"""The search for hierarchical N:M: rows by vectors, then columns private to tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import permsearch as ps
import permsearch.testing as pt
from permsearch.patterns import HiNM
from permsearch.solvers.hinm import HiNMSearch
from tests import reference_hinm as reference


def gaussian(rows: int, cols: int, seed: int = 1) -> NDArray[np.float32]:
    """Return the magnitudes of a Gaussian weight."""
    return np.abs(ps.instances.gaussian(rows, cols, seed=seed))


def test_the_result_speaks_of_the_same_mask_everywhere() -> None:
    """Score, tiles, and both masks belong together; the columns' stored order is left alone."""
    weight = gaussian(64, 48)
    result = ps.search(weight, "hinm:16@0.5:2:4", stop=ps.MaxSteps(60), seed=2)
    pt.check_result(result, result.problem)
    tiles = result.tiles[0]
    assert tiles.shape == (4, 24)
    assert np.array_equal(result.cols, np.arange(48))
    stored = weight[result.rows]
    kept = sum(
        reference.kept_of(tile, order, 2, 4)
        for tile, order in zip(reference.tiles_of(stored, 16), tiles.tolist(), strict=True)
    )
    assert result.score == pytest.approx(kept, rel=1e-9)
    assert float(weight[result.mask].sum(dtype=float)) == pytest.approx(kept, rel=1e-9)
    assert np.array_equal(result.mask[result.rows], result.permuted_mask)


def test_columns_that_are_stored_in_another_order_stay_there() -> None:
    """A start's column order is kept; tiles name columns as they are stored."""
    weight = gaussian(32, 24)
    cols = np.random.default_rng(1).permutation(24)
    problem = ps.single(weight, "hinm:8@0.5:2:4")
    result = HiNMSearch().solve(problem, start={"cols": cols}, stop=ps.MaxSteps(40))
    pt.check_result(result, problem)
    assert np.array_equal(result.cols, cols)
    assert result.score > result.baseline


@pytest.mark.parametrize("permute", ["rows", "cols"])
def test_one_free_axis_is_enough_for_tiles(permute: str) -> None:
    """Tiles choose their columns whatever may be reordered; rows move only where they may."""
    problem = ps.single(gaussian(32, 24), "hinm:8@0.5:2:4", permute=permute)
    result = HiNMSearch().solve(problem, stop=ps.MaxSteps(60))
    pt.check_result(result, problem)
    assert result.score > result.baseline * 1.02
    assert 0 in result.tiles
    assert np.array_equal(result.rows, np.arange(32)) == (permute == "cols")


def test_taps_have_tiles_of_their_own_and_share_rows() -> None:
    """A convolution is one matrix per tap; the tiles of each stand one after another."""
    weight = gaussian(32, 16 * 3).reshape(32, 16, 3)
    problem = ps.single(weight, "hinm:8@0.5:2:4")
    result = HiNMSearch().solve(problem, stop=ps.MaxSteps(60))
    pt.check_result(result, problem)
    assert result.tiles[0].shape == (3 * 4, 8)
    assert result.score > result.baseline * 1.02


def test_taps_that_weigh_little_keep_their_share() -> None:
    """Each tap keeps as many vectors: rows are grouped for all of them, not for the heaviest."""
    weight = gaussian(64, 32 * 3, seed=6).reshape(64, 32, 3)
    weight[:, :, 1] **= 3  # heavy tails beside light ones
    problem = ps.single(weight, "hinm:16@0.5:2:4")
    ours = ps.solve(problem, "hinm", stop=ps.MaxSteps(300))
    assert ours.retained > ps.solve(problem, "gyro").retained


def test_planted_tiles_are_found() -> None:
    """Rows that keep the same vectors come together exactly, without knowing which."""
    rng = np.random.default_rng(3)
    weight = np.zeros((64, 40), np.float32)
    for t in range(4):
        live = rng.permutation(40)[:20]
        weight[16 * t : 16 * t + 16, live] = 1 + rng.random((16, 20), np.float32)
    weight = weight[rng.permutation(64)]
    result = ps.search(weight, "hinm:16@0.5:4:4", stop=ps.MaxSteps(200))
    assert result.share(result.baseline) < 0.9
    assert result.retained == pytest.approx(1)


def test_dropped_vectors_come_back_where_they_serve_groups() -> None:
    """The kept set of the largest sums is not the best one for N:M; the search leaves it."""
    weight = gaussian(4, 6, seed=2)
    pattern = HiNM(4, 0.7, 2, 4)
    best = reference.best_of_tile(weight, 4, 2, 4)
    assert pattern.retained(weight) < best
    result = ps.search(weight, pattern, stop=ps.MaxSteps(100))
    assert result.score == pytest.approx(best)


@pytest.mark.parametrize("text", ["hinm:16@1:2:4", "hinm:16@0.5:4:4", "hinm:16@0.5:1:1"])
def test_patterns_of_one_level_are_searched(text: str) -> None:
    """All vectors kept, or all entries of the kept ones, are patterns like others."""
    problem = ps.single(gaussian(64, 32), text)
    result = HiNMSearch().solve(problem, stop=ps.MaxSteps(60))
    pt.check_result(result, problem)
    assert result.score > result.baseline


def test_it_beats_gyro_permutation() -> None:
    """At a fixed number of steps more is kept than by the published search."""
    for seed in range(2):
        problem = ps.single(gaussian(256, 128, seed=seed), "hinm:32@0.5:2:4")
        ours = ps.solve(problem, "hinm", stop=ps.MaxSteps(300), seed=seed)
        published = ps.solve(problem, "gyro", seed=seed)
        assert published.score > published.baseline
        assert ours.retained > published.retained + 0.003
        assert ours.retained >= 0.446  # no order: 0.415


@pytest.mark.parametrize("limit", [ps.MaxCpuSeconds(0.05), ps.MaxSeconds(0.2)], ids=repr)
def test_a_run_limited_in_seconds_is_repeated_by_its_steps(limit: ps.StoppingCriterion) -> None:
    """The steps that a timed run did lead to the same orders."""
    problem = ps.single(gaussian(64, 32), "hinm:16@0.5:2:4")
    timed = ps.solve(problem, "hinm", stop=limit, seed=2)
    again = ps.solve(problem, "hinm", stop=ps.MaxSteps(timed.steps), seed=2)
    assert np.array_equal(timed.rows, again.rows)
    assert np.array_equal(timed.tiles[0], again.tiles[0])


def test_scaling_by_a_power_of_two_changes_no_order() -> None:
    """Scores far outside float32's range are searched like those inside."""
    weight = gaussian(32, 16).astype(np.float64)
    one, two = (
        ps.search(scaled, "hinm:8@0.5:2:4", stop=ps.MaxSteps(40))
        for scaled in (weight, np.ldexp(weight, 700))
    )
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.tiles[0], two.tiles[0])


@pytest.mark.parametrize("weight", [np.zeros((16, 16)), np.ones((16, 16)), np.eye(16)])
@pytest.mark.parametrize("solver", ["hinm", "gyro"])
def test_degenerate_weights_do_no_harm(weight: NDArray[Any], solver: str) -> None:
    """Zeros, ties and single entries give legal results."""
    problem = ps.single(weight, "hinm:4@0.5:2:4")
    pt.check_result(ps.solve(problem, solver, stop=ps.MaxSteps(40)), problem)


@pytest.mark.parametrize("name", ["noise", "column_noise"])
@pytest.mark.parametrize("value", [-1.0, float("inf"), "hot"])
def test_options_that_make_no_sense_are_refused(name: str, value: Any) -> None:
    """The message names the option."""
    with pytest.raises(ValueError, match=name):
        HiNMSearch(**{name: value})


@pytest.mark.parametrize("solver", ["auto", "none", "hinm", "gyro", "local", "swap"])
def test_tiles_are_searched_although_no_axis_moves(solver: str) -> None:
    """Tiles keep orders of their own: without a free axis there is something to find, no proof."""
    weight = ps.instances.gaussian(64, 32, seed=0)
    stop = ps.MaxSteps(50)
    result = ps.search(weight, "hinm:32@0.5:2:4", permute=[], solver=solver, stop=stop)
    assert result.status is not ps.Status.OPTIMAL
    assert result.bound_kind != "exact"
    assert (result.score > result.baseline) == (solver in {"auto", "hinm", "gyro"})
    assert bool(result.tiles) == (result.score > result.baseline)
