"""Twenty named instances whose optimum is proven: provers, bounds and heuristics against it.

`tests/data/instances/proven.json` holds, for each, how it is generated (kind, shape, seed,
pattern), the proven optimum, the bound, and the share of the possible gain that each heuristic
missed in 500 steps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import permsearch as ps

STORED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "instances" / "proven.json").read_text(encoding="utf-8")
)
QUICK = ("swap", "anneal")
WORSE = 0.03  # share of the gain by which another machine's rounding may lead a search astray


def problem_of(stored: dict[str, Any]) -> ps.Problem:
    """Return the problem of a stored instance."""
    weight = ps.instances.instance(
        stored["kind"], stored["rows"], stored["cols"], seed=stored["seed"]
    )
    return ps.single(weight, stored["pattern"])


def test_there_are_twenty() -> None:
    """Every instance has a name of its own and a proof."""
    assert len({stored["name"] for stored in STORED}) == 20
    assert all(stored["proven"] for stored in STORED)


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["name"])
def test_optimum_bound_and_missed_shares(stored: dict[str, Any]) -> None:
    """The optimum is proven again, the bound is no looser, and no heuristic got worse."""
    problem = problem_of(stored)
    assert problem.total == pytest.approx(stored["total"], rel=1e-9)
    best = ps.solve(problem, "exact", stop=ps.MaxSteps(300))
    assert best.status is ps.Status.OPTIMAL
    assert best.score == pytest.approx(stored["optimum"], rel=1e-8)
    limit = ps.bound(problem)
    assert limit.kind == stored["bound_kind"]
    assert best.score <= limit.value <= stored["bound"] * (1 + 2e-5)
    for solver in QUICK:
        score = ps.solve(problem, solver, stop=ps.MaxSteps(500)).score
        missed = (best.score - score) / (best.score - best.baseline)
        assert -1e-6 <= missed <= stored["missed"][solver] + WORSE
