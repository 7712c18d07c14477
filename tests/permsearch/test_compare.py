"""Comparisons: a row per tensor and solver, honest sums, valid JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import permsearch as ps
from permsearch.io.jsontext import json_text, plain
from permsearch.rows import COLUMNS
from permsearch.summary import summarise

PROMISED = [
    "tensor",
    "rows",
    "cols",
    "pattern",
    "solver",
    "seed",
    "steps",
    "seconds",
    "cpu_seconds",
    "retained",
    "baseline",
    "bound",
    "bound_kind",
    "efficacy",
    "gap",
    "status",
]


@pytest.fixture(scope="module")
def comparison() -> ps.Comparison:
    """Return three solvers on two matrices and a convolution."""
    tensors = {
        "a": ps.instances.gaussian(12, 64, seed=1),
        "b": 10 * ps.instances.gaussian(12, 32, seed=2),
        "conv": ps.instances.gaussian(4, 72, seed=3).reshape(4, 8, 3, 3),
        "bias": np.ones(4),
    }
    solvers = ["none", "random", "exhaustive"]
    return ps.compare(tensors, "2:4", solvers=solvers, stop=ps.MaxSteps(30), seed=5)


def test_rows_hold_what_is_promised(comparison: ps.Comparison) -> None:
    """Every row has all keys; shares are shares and agree with each other."""
    for row in comparison.rows:
        assert set(row) == set(COLUMNS)
        assert set(PROMISED) <= set(row)
        assert 0 < row["baseline"] <= row["retained"] <= row["bound"] <= 1
        assert row["gap"] == pytest.approx((row["bound"] - row["retained"]) / row["bound"])
        assert (row["pattern"], row["seed"]) == ("2:4", 5)
        assert row["seconds"] >= 0
    shapes = {row["tensor"]: (row["rows"], row["cols"]) for row in comparison.rows}
    assert shapes == {"a": (12, 64), "b": (12, 32), "conv": (36, 8)}


def test_a_solver_that_cannot_take_a_tensor_is_listed(comparison: ps.Comparison) -> None:
    """Exhaustive search takes 8 columns and not 32; that is told, and the others are compared."""
    searched = [(row["tensor"], row["solver"]) for row in comparison.rows]
    assert searched.count(("conv", "exhaustive")) == 1
    reasons = {skip.name: skip.reason for skip in comparison.skipped}
    assert reasons.keys() == {"a", "b", "bias"}
    assert "not searched by exhaustive" in reasons["a"]


def test_summary_weighs_by_score(comparison: ps.Comparison) -> None:
    """Retained of a solver is the share of all scores of its tensors together."""
    rows = [row for row in comparison.rows if row["solver"] == "random"]
    found = next(row for row in comparison.summary() if row["solver"] == "random")
    kept = sum(row["retained"] * row["total"] for row in rows)
    assert found["retained"] == pytest.approx(kept / sum(row["total"] for row in rows))
    assert found["efficacy"] == pytest.approx(np.mean([row["efficacy"] for row in rows]))
    assert found["tensors"] == 3
    assert found["gain_over_window"] is None


def row(tensor: str, solver: str, gain: float, total: float = 1.0) -> dict[str, Any]:
    """Return a made-up row."""
    return {
        "tensor": tensor,
        "solver": solver,
        "retained": 0.5 + gain,
        "baseline": 0.5,
        "bound": 1.0,
        "efficacy": gain,
        "gap": 0.1,
        "seconds": 1.0,
        "cpu_seconds": 2.0,
        "total": total,
    }


def test_gain_over_window_is_a_median_of_ratios() -> None:
    """The ratio of gains is taken per tensor, then its median; where window gains nothing, not."""
    gains = {"x": (0.1, 0.2), "y": (0.1, 0.3), "z": (0.2, 0.2), "still": (0.0, 0.5)}
    rows = [row(t, "window", a) for t, (a, _) in gains.items()]
    rows += [row(t, "swap", b) for t, (_, b) in gains.items()]
    window, swap = summarise(rows)
    assert window["gain_over_window"] == pytest.approx(1.0)
    assert swap["gain_over_window"] == pytest.approx(2.0)
    assert swap["cpu_seconds"] == 8.0


def test_weights_of_zero_score() -> None:
    """Tensors of zeros are compared without a division by zero."""
    result = ps.compare({"z": np.zeros((4, 8))}, "2:4", solvers=["none"])
    assert result.rows[0]["retained"] == 1.0
    assert result.summary()[0]["retained"] == 1.0
    json.loads(result.to_json())


def test_json_and_csv_hold_the_rows(comparison: ps.Comparison, tmp_path: Path) -> None:
    """JSON and CSV written to files read back as the rows, to the last digit."""
    comparison.to_json(tmp_path / "c.json")
    comparison.to_csv(tmp_path / "c.csv")
    content = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert content["rows"] == list(comparison.rows)
    assert content["about"]["pattern"] == "2:4"
    assert {"date", "permsearch", "machine"} <= content["about"].keys()
    assert [skip["tensor"] for skip in content["skipped"]] == ["bias", "a", "b"]
    table = list(csv.DictReader(io.StringIO((tmp_path / "c.csv").read_text("utf-8"))))
    assert [float(line["retained"]) for line in table] == [r["retained"] for r in comparison.rows]


def test_json_has_no_nan() -> None:
    """NaN, infinities and numpy numbers become what every JSON reader takes."""
    value = {"a": float("nan"), "b": [np.float32(1.5), -np.inf, None], 3: (np.int64(4), True)}
    assert plain(value) == {"a": None, "b": [1.5, None, None], "3": [4, True]}
    assert json.loads(json_text(value), parse_constant=pytest.fail) == plain(value)


def test_an_unknown_solver_is_told_before_the_work() -> None:
    """A misspelt solver at the end of the list stops the comparison before its first search."""
    with pytest.raises(ps.UnknownName, match="swop"):
        ps.compare({"a": np.ones((4, 8))}, "2:4", solvers=["none", "swop"])


def test_solver_values_are_compared_too() -> None:
    """Solvers with options of their own stand beside short names."""
    solver = ps.get_solver("random")
    result = ps.compare({"a": np.eye(8)}, "2:4", solvers=["none", solver], stop=ps.MaxSteps(2))
    assert [r["solver"] for r in result.rows] == ["none", str(solver)]


def test_one_solver_needs_no_list() -> None:
    """A single name or value will do; no solver at all is told."""
    weights = {"a": np.eye(8)}
    for solver in ("none", ps.get_solver("none")):
        (row,) = ps.compare(weights, "2:4", solvers=solver).rows
        assert row["solver"] == str(solver)
    with pytest.raises(ValueError, match="at least one solver"):
        ps.compare(weights, "2:4", solvers=[])


def test_solvers_are_not_set_against_each_other_by_steps() -> None:
    """A step is another amount of work for every solver."""
    weights, solvers = {"a": ps.instances.gaussian(12, 16, seed=0)}, ["window", "random"]
    for stop, told in ((ps.MaxSteps(50), False), (ps.MaxSeconds(0.05), True)):
        comparison = ps.compare(weights, "2:4", solvers=solvers, stop=stop)
        ratios = [row["gain_over_window"] for row in comparison.summary()]
        assert [ratio is not None for ratio in ratios] == [told, told]


@pytest.mark.parametrize(
    ("pattern", "solvers"),
    [
        ("2:4", ["none", "window", "auto"]),
        ("vector:4@0.5", ["none", "kmeans", "auto"]),
        ("block:4x4@0.5", ["none", "tetris", "auto"]),
        ("hinm:4@0.5:2:4", ["none", "gyro", "auto"]),
        ("transposable:2:4", ["none", "auto"]),
    ],
)
def test_the_published_search_for_the_pattern_is_compared(pattern: str, solvers: list[str]) -> None:
    """Where nobody names solvers, none that cannot take the pattern is tried."""
    tensors = {"a": ps.instances.gaussian(16, 16, seed=1)}
    comparison = ps.compare(tensors, pattern, stop=ps.MaxSteps(2))
    assert [row["solver"] for row in comparison.rows] == solvers
    assert not comparison.skipped


def test_a_bound_of_zeros_has_no_slack() -> None:
    """Where there is nothing to keep, no room for rounding is told either."""
    (row,) = ps.compare({"a": np.zeros((8, 8))}, "block:4x4@0.5", solvers="none").rows
    assert (row["retained"], row["bound"], row["bound_slack"]) == (1.0, 1.0, 0.0)
