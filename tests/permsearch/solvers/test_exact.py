"""Exact proves what it says, agrees with brute force and a second prover, and can be stopped."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.errors import UnsupportedProblem
from permsearch.problem import Problem, Term
from permsearch.solvers import exact as module
from permsearch.solvers.exact import Exact
from permsearch.testing import check_solver

SMALL = [("2:4", 20, 24), ("1:4", 20, 10), ("3:4", 20, 10), ("2:3", 21, 12), ("1:2", 20, 16)]


@pytest.mark.parametrize(("pattern", "count", "rows"), SMALL)
@pytest.mark.parametrize("kind", ["gaussian", "lognormal_columns"])
def test_two_provers_agree(pattern: str, count: int, rows: int, kind: str) -> None:
    """HiGHS and CP-SAT prove the same value, and no bound lies below it."""
    problem = ps.single(ps.instances.instance(kind, rows, count, seed=1), pattern)
    first = ps.solve(problem, Exact(), stop=ps.MaxSteps(400))
    second = ps.solve(problem, Exact("cpsat"), stop=ps.MaxSteps(400))
    assert first.status is second.status is ps.Status.OPTIMAL
    assert first.score == pytest.approx(second.score, rel=1e-9)
    assert ps.bound(problem).value >= first.score
    assert first.bound == pytest.approx(first.score, rel=1e-6)
    assert first.bound_kind == "exact"


def test_equals_dynamic_programming(monkeypatch: pytest.MonkeyPatch) -> None:
    """The integer program finds what the sum over all subsets finds."""
    monkeypatch.setattr(module, "MAX_COLUMNS", 4)
    for seed in range(4):
        weight = ps.instances.gaussian(9, 16, seed=seed)
        for scores in (weight, np.round(weight), weight * 1e-6, weight * 1e6):
            problem = ps.single(scores, "2:4")
            found = ps.solve(problem, Exact(anneal_steps=1), stop=ps.MaxSteps(400))
            assert found.status is ps.Status.OPTIMAL
            assert found.score == pytest.approx(ps.solve(problem, "exhaustive").score, rel=1e-9)


def test_every_start_is_kept_and_every_stop_is_a_valid_bound() -> None:
    """Stopped after any number of steps: no less than the start, no bound below the optimum."""
    problem = ps.single(ps.instances.gaussian(24, 28, seed=2), "2:4")
    best = ps.solve(problem, "exact", stop=ps.MaxSteps(400))
    assert best.status is ps.Status.OPTIMAL
    bounds = []
    for steps in range(best.steps + 1):
        found = ps.solve(problem, "exact", stop=ps.MaxSteps(steps), start=best.solution)
        assert found.score == pytest.approx(best.score, rel=1e-12)
        assert found.bound >= best.score
        cold = ps.solve(problem, "exact", stop=ps.MaxSteps(steps))
        assert cold.baseline <= cold.score <= best.score * (1 + 1e-12) <= cold.bound * (1 + 1e-12)
        bounds.append(cold.bound)
    assert sorted(bounds, reverse=True) == bounds
    again = ps.solve(problem, "exact", stop=ps.MaxSteps(best.steps))
    assert np.array_equal(again.cols, best.cols)


def test_segments_are_proven_one_by_one() -> None:
    """A problem of several pieces is optimal when all of them are."""
    weight = np.abs(ps.instances.gaussian(16, 52, seed=3))
    domain = ps.Segments((24, 8, 20))
    problem = Problem({"cols": domain}, (Term(weight, ps.NM(2, 4), cols="cols"),))
    found = ps.solve(problem, "exact", stop=ps.MaxSteps(900))
    assert found.status is ps.Status.OPTIMAL
    assert found.bound == pytest.approx(found.score, rel=1e-6)
    some = ps.solve(problem, "exact", stop=ps.MaxSteps(7))
    assert found.score <= some.bound < ps.bound(problem, "row").value


def test_restricted_program_improves_without_a_proof() -> None:
    """Where the candidates are too many, the best of them still hold a better order."""
    problem = ps.single(ps.instances.gaussian(24, 24, seed=5), "2:4")
    best = ps.solve(problem, "exact", stop=ps.MaxSteps(400))
    assert best.status is ps.Status.OPTIMAL
    plain = ps.solve(problem, Exact(anneal_steps=1, most_groups=5), stop=ps.MaxSteps(400))
    few = Exact(anneal_steps=1, most_groups=5, restricted=2000, attempts=2)
    found = ps.solve(problem, few, stop=ps.MaxSteps(400))
    assert plain.score < found.score <= best.score * (1 + 1e-12)
    assert found.status is ps.Status.STOPPED
    assert best.score <= found.bound
    with pytest.raises(ValueError, match="restricted must be"):
        Exact(restricted=-1)


def test_keeps_the_contract_of_solvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact passes the conformance kit without its short cut for few columns."""
    monkeypatch.setattr(module, "MAX_COLUMNS", 4)
    check_solver(Exact(anneal_steps=1), ps.single(ps.instances.gaussian(10, 12, seed=4), "2:4"))


def test_says_what_it_cannot_prove() -> None:
    """Too many groups are refused with the way out, and so are unknown provers."""
    with pytest.raises(UnsupportedProblem, match="too many to price"):
        ps.solve(ps.single(np.ones((2, 64)), "8:16"), "exact")
    with pytest.raises(ValueError, match="unknown prover 'glpk'"):
        Exact("glpk")  # type: ignore[arg-type]
