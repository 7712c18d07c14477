"""The search for V:N:M: strips and groups move together, out of every trap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import permsearch as ps
import permsearch.testing as pt
from permsearch.solvers.vnm import VNMSearch


def gaussian(rows: int, cols: int, seed: int = 1) -> NDArray[np.float32]:
    """Return the magnitudes of a Gaussian weight."""
    return np.abs(ps.instances.gaussian(rows, cols, seed=seed))


def planted(strips: int, v: int, groups: int, m: int, seed: int) -> NDArray[np.float32]:
    """Return a weight with the pattern v:2:m whose rows were shuffled."""
    rng = np.random.default_rng(seed)
    weight = np.zeros((strips * v, groups * m), np.float32)
    for t in range(strips):
        for g in range(groups):
            live = g * m + rng.permutation(m)[:4]
            for r in range(t * v, t * v + v):
                weight[r, rng.permutation(live)[:2]] = 1 + rng.random(2, np.float32)
    return weight[rng.permutation(len(weight))]


@pytest.mark.parametrize("rows", ["assignment", "exchange"])
@pytest.mark.parametrize("permute", ["rows", "cols", ("rows", "cols")])
def test_results_are_legal_and_better(rows: Any, permute: Any) -> None:
    """Whatever is free, the result keeps more than the start, by orders of what is free alone."""
    problem = ps.single(gaussian(64, 32), "16:2:8", permute=permute)
    result = VNMSearch(rows=rows).solve(problem, stop=ps.MaxSteps(30), seed=3)
    pt.check_result(result, problem)
    assert result.score > result.baseline * 1.01
    assert result.solution.keys() == set([permute] if isinstance(permute, str) else permute)


def test_taps_share_their_orders() -> None:
    """A convolution is searched as one matrix per tap; all of them gain together."""
    weight = gaussian(32, 16 * 4).reshape(32, 16, 2, 2)
    problem = ps.single(weight, "8:2:8")
    for rows in ("assignment", "exchange"):
        result = VNMSearch(rows=rows).solve(problem, stop=ps.MaxSteps(25))
        pt.check_result(result, problem)
        assert result.score > result.baseline * 1.01


@pytest.mark.parametrize(("text", "plain"), [("1:2:8", "2:8"), ("8:2:4", "2:4")])
@pytest.mark.parametrize("columns", [16, 48])
def test_plain_sparsity_is_searched_as_such(text: str, plain: str, columns: int) -> None:
    """Where no row shares anything the result is that of N:M, step by step."""
    weight = gaussian(16, columns)
    one, two = (ps.search(weight, name, stop=ps.MaxSteps(80), seed=4) for name in (text, plain))
    assert one.score == pytest.approx(two.score, rel=1e-9)
    assert one.status is two.status


def test_planted_strips_are_found() -> None:
    """Rows of a weight that has the pattern but for their order are put back exactly."""
    result = ps.search(
        planted(8, 16, 8, 8, seed=1), "16:2:8", permute="rows", stop=ps.MaxSteps(150)
    )
    assert result.share(result.baseline) < 0.9
    assert result.retained == pytest.approx(1)
    assert result.status is ps.Status.OPTIMAL


def test_exchanges_move_where_rows_hold_each_other() -> None:
    """Without noise an alternation of rows and live columns hardly moves wide weights."""
    problem = ps.single(gaussian(512, 2048), "64:2:8", permute="rows")
    stuck, moving = (
        VNMSearch(noise=0, rows=rows).solve(problem, stop=ps.MaxSteps(2)).score
        for rows in ("assignment", "exchange")
    )
    base = ps.parse_pattern("64:2:8").retained(gaussian(512, 2048))
    assert moving - base > 2 * (stuck - base)
    assert moving > base * 1.005


def test_rows_and_columns_together_beat_either_alone() -> None:
    """At the same number of steps both axes keep more than one, and noise more than none."""
    weight = gaussian(256, 128, seed=5)

    def kept(permute: Any, noise: float = 0.8) -> float:
        problem = ps.single(weight, "32:2:8", permute=permute)
        return VNMSearch(noise=noise).solve(problem, stop=ps.MaxSteps(120)).retained

    both = kept(("rows", "cols"))
    assert both > kept("rows")
    assert both > kept("cols")
    assert both > kept(("rows", "cols"), noise=0.0)
    assert both >= 0.4265  # no order: 0.4082


@pytest.mark.parametrize("limit", [ps.MaxCpuSeconds(0.05), ps.MaxSeconds(0.2)], ids=repr)
def test_a_run_limited_in_seconds_is_repeated_by_its_steps(limit: ps.StoppingCriterion) -> None:
    """The steps that a timed run did lead to the same orders."""
    problem = ps.single(gaussian(64, 32), "16:2:8")
    timed = ps.solve(problem, "vnm", stop=limit, seed=2)
    again = ps.solve(problem, "vnm", stop=ps.MaxSteps(timed.steps), seed=2)
    assert np.array_equal(timed.rows, again.rows)
    assert np.array_equal(timed.cols, again.cols)


def test_scaling_by_a_power_of_two_changes_no_order() -> None:
    """Scores far outside float32's range are searched like those inside."""
    weight = gaussian(32, 16).astype(np.float64)
    one, two = (
        ps.search(scaled, "8:2:8", solver="vnm", stop=ps.MaxSteps(25))
        for scaled in (weight, np.ldexp(weight, 700))
    )
    assert np.array_equal(one.rows, two.rows)
    assert np.array_equal(one.cols, two.cols)
    assert two.score == np.ldexp(one.score, 700)


@pytest.mark.parametrize("weight", [np.zeros((16, 16)), np.ones((16, 16)), np.eye(16)])
def test_degenerate_weights_do_no_harm(weight: NDArray[Any]) -> None:
    """Zeros, ties and single entries give legal results."""
    problem = ps.single(weight, "4:2:8")
    for rows in ("assignment", "exchange"):
        pt.check_result(VNMSearch(rows=rows).solve(problem, stop=ps.MaxSteps(20)), problem)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": -1.0}, "noise must be finite"),
        ({"column_noise": float("nan")}, "column_noise must be finite"),
        ({"noise": "hot"}, "noise must be a number"),
        ({"rows": "swap"}, "unknown way to move rows 'swap'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    """The message names the option and its value."""
    with pytest.raises(ValueError, match=words):
        VNMSearch(**options)
