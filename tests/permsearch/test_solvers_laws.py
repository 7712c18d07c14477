"""Every solver keeps every promise: the conformance kit, and laws that Hypothesis attacks."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import permsearch as ps
import permsearch.testing as pt
from permsearch.domains import Free, Segments
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.solvers.registry import get_solver, solver_names
from permsearch.solvers.swap import Swap
from tests import reference, strategies
from tests.strategies import Scores

COMPOSED: dict[str, ps.Solver] = {
    "then": ps.Then(get_solver("deal"), get_solver("swap")),
    "then-random": ps.Then(get_solver("local"), get_solver("random")),
    "multistart": ps.Multistart(get_solver("swap"), starts=3),
    "multistart-random": ps.Multistart(get_solver("random"), starts=2, threads=1),
}


SOLVERS = COMPOSED | {name: get_solver(name) for name in solver_names()}
PROBLEMS = pt.tiny_problems()

every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS.keys())
# Every solver times every law is many runs: few examples of each, and other ones in every run.
few = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


def several_pieces(rows: int = 24) -> Problem:
    """Return a problem of two variables, one in segments, of three independent stacks."""
    gaussian = ps.instances.gaussian
    terms = (
        Term(np.abs(gaussian(rows, 24, seed=1)), NM(2, 4), cols="a", name="first"),
        Term(np.abs(gaussian(rows, 24, seed=2)), NM(2, 4), cols="b", name="second"),
        Term(np.abs(gaussian(rows, 24, seed=3)), NM(2, 4), cols="b", name="third"),
    )
    return Problem({"a": Segments((8, 16)), "b": Free(24)}, terms)


def solvers_of(problem: Problem) -> pytest.MarkDecorator:
    """Return the mark that runs a test with every solver that takes a problem."""
    taking = {name: s for name, s in SOLVERS.items() if s.supports(problem) is None}
    return pytest.mark.parametrize("solver", taking.values(), ids=taking.keys())


def same_orders(one: ps.SearchResult, two: ps.SearchResult) -> bool:
    """Decide whether two results order every variable alike."""
    assert one.solution.keys() == two.solution.keys()
    return all(np.array_equal(one.solution[name], two.solution[name]) for name in one.solution)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Let numba use a number of threads, or skip where it may not use so many."""
    import numba

    before = numba.get_num_threads()
    try:
        numba.set_num_threads(count)
    except ValueError:
        pytest.skip(f"numba may not use {count} threads here")
    try:
        yield
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("name", solver_names())
def test_every_name_is_a_solver(name: str) -> None:
    """Each short name imports, is a frozen value equal to itself, and prints its options."""
    solver = get_solver(name)
    assert isinstance(solver, ps.Solver)
    assert solver == get_solver(name)
    assert hash(solver) == hash(get_solver(name))
    assert repr(solver).startswith(type(solver).__name__ + "(")
    assert importlib.import_module(type(solver).__module__).__doc__


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
@every_solver
def test_conformance(solver: ps.Solver, problem: Problem) -> None:
    """The kit's promises hold on every tiny problem, checked against brute force."""
    pt.check_solver(solver, problem, steps=60)


@every_solver
@few
@given(drawn=strategies.column_problems(max_m=32, max_groups=3), seed=st.integers(0, 99))
def test_results_are_legal_and_honest(
    solver: ps.Solver, drawn: tuple[Scores, NM], seed: int
) -> None:
    """Never below the start, never above the bound, and the score is what sorting gives."""
    scores, pattern = drawn
    problem = ps.single(scores, pattern)
    if solver.supports(problem) is not None:
        return
    start = ps.random_solution(problem, seed=seed)
    result = solver.solve(problem, stop=ps.MaxSteps(20), start=start, seed=seed)
    pt.check_result(result, problem)
    begin = reference.retained_nm(scores[:, start["cols"]], pattern.n, pattern.m)
    final = reference.retained_nm(scores[:, result.cols], pattern.n, pattern.m)
    close = 1e-9 * problem.total
    assert result.baseline == pytest.approx(begin, rel=1e-9, abs=0)
    assert result.score == pytest.approx(final, rel=1e-9, abs=0)
    assert final >= begin - close
    assert final <= reference.row_ceiling(scores, pattern.n, pattern.m) + close


@every_solver
@few
@given(problem=strategies.problems(), seed=st.integers(0, 99))
def test_problems_of_every_shape_are_solved_or_refused(
    solver: ps.Solver, problem: Problem, seed: int
) -> None:
    """Several terms, variables and domains: a legal result, or a reason that `solve` repeats."""
    reason = solver.supports(problem)
    if reason is None:
        pt.check_result(solver.solve(problem, stop=ps.MaxSteps(15), seed=seed), problem)
        return
    with pytest.raises(ps.UnsupportedProblem) as caught:
        solver.solve(problem, stop=ps.MaxSteps(15), seed=seed)
    assert reason in str(caught.value)


@every_solver
@few
@given(
    drawn=strategies.column_problems(max_m=8),
    exponent=st.sampled_from([-20, 20]),
    seed=st.integers(0, 99),
)
def test_scaling_by_a_power_of_two_changes_no_order(
    solver: ps.Solver, drawn: tuple[Scores, NM], exponent: int, seed: int
) -> None:
    """The scores times 2**20 or 2**-20 give the same orders, and the scaled score to the bit."""
    scores = drawn[0].astype(np.float64)
    plain, scaled = ps.single(scores, drawn[1]), ps.single(np.ldexp(scores, exponent), drawn[1])
    if solver.supports(plain) is not None:
        return
    one = solver.solve(plain, stop=ps.MaxSteps(20), seed=seed)
    two = solver.solve(scaled, stop=ps.MaxSteps(20), seed=seed)
    assert same_orders(one, two)
    assert two.score == np.ldexp(one.score, exponent)
    assert two.steps == one.steps


def large(rows: int = 40, cols: int = 64) -> Problem:
    """Return a problem too large to be enumerated."""
    return ps.single(ps.instances.gaussian(rows, cols, seed=5), "2:4")


@solvers_of(large())
@pytest.mark.parametrize("factor", [1e6, 1e-6])
@pytest.mark.parametrize("kind", ["gaussian", "lognormal_columns"])
def test_scaling_by_any_factor_changes_no_share(
    solver: ps.Solver, factor: float, kind: str
) -> None:
    """The scores times 1e6 or 1e-6 retain the same share within 1e-4."""
    weight = ps.instances.instance(kind, 64, 48, seed=4).astype(np.float64)
    one, two = (
        solver.solve(ps.single(scaled, "2:4"), stop=ps.MaxSteps(200), seed=1)
        for scaled in (weight, weight * factor)
    )
    assert two.retained == pytest.approx(one.retained, abs=1e-4)


@solvers_of(large())
@pytest.mark.parametrize("pattern", ["2:4", "1:2", "4:8"])
def test_threads_change_nothing(
    solver: ps.Solver, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same seed and steps give the same orders on one and on two threads."""
    from permsearch.kernels import threads as module

    monkeypatch.setattr(module, "_WORTH_SPLITTING", 1)  # so that threads share the smallest work
    problem = ps.single(ps.instances.gaussian(40, 64, seed=5), pattern)
    results = []
    for count in (1, 2):
        with threads(count):
            results.append(solver.solve(problem, stop=ps.MaxSteps(30), seed=7))
    assert same_orders(*results)


def test_threads_of_a_multistart_change_nothing() -> None:
    """Starts run in parallel or one by one end in the same orders."""
    problem = ps.single(ps.instances.gaussian(24, 32, seed=5), "2:4")
    results = [
        ps.Multistart(get_solver("swap"), starts=4, threads=count).solve(problem, seed=3)
        for count in (1, 2, 4)
    ]
    assert same_orders(results[0], results[1])
    assert same_orders(results[0], results[2])


SHAPES = {"one-piece": large(128, 96), "several-pieces": several_pieces(128)}


@solvers_of(SHAPES["several-pieces"])
@pytest.mark.parametrize("limit", [ps.MaxSeconds(0.03), ps.MaxCpuSeconds(0.03)], ids=repr)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_limited_in_seconds_can_be_repeated_by_its_steps(
    solver: ps.Solver, limit: ps.StoppingCriterion, shape: str
) -> None:
    """The steps that a timed run did, given as a budget, lead to the same orders."""
    problem = SHAPES[shape]
    timed = solver.solve(problem, stop=limit, seed=2)
    again = solver.solve(problem, stop=ps.MaxSteps(timed.steps), seed=2)
    assert same_orders(timed, again)
    assert again.score == timed.score


@solvers_of(several_pieces())
def test_a_second_criterion_that_never_fires_changes_nothing(solver: ps.Solver) -> None:
    """A step budget joined with a score out of reach is the step budget."""
    problem = several_pieces()
    plain = solver.solve(problem, stop=ps.MaxSteps(25))
    both = ps.AnyOf(ps.MaxSteps(25), ps.ReachedScore(2 * problem.total))
    assert same_orders(plain, solver.solve(problem, stop=both))


@solvers_of(several_pieces())
@pytest.mark.parametrize(
    "stop",
    [
        ps.MaxSteps(0),
        ps.MaxSeconds(0),
        ps.MaxCpuSeconds(0),
        ps.ReachedScore(0),
        ps.NoImprovement(0),
    ],
    ids=repr,
)
def test_a_criterion_that_holds_at_once_returns_the_start(
    solver: ps.Solver, stop: ps.StoppingCriterion
) -> None:
    """Nothing is done and the start comes back, whole and valued."""
    problem = several_pieces()
    start = ps.random_solution(problem, seed=9)
    result = solver.solve(problem, stop=stop, start=start)
    assert result.steps == 0
    assert result.score == result.baseline == problem.evaluate(start)
    for name, order in start.items():
        assert np.array_equal(result.solution[name], order)


@solvers_of(several_pieces())
def test_an_endless_criterion_ends(solver: ps.Solver) -> None:
    """A long time without a rise ends every solver that does not end by itself."""
    problem = several_pieces()
    pt.check_result(solver.solve(problem, stop=ps.NoImprovement(50)), problem)


@solvers_of(several_pieces())
def test_steps_do_not_exceed_the_budget(solver: ps.Solver) -> None:
    """Every budget is kept, odd ones and several pieces included."""
    problem = several_pieces()
    for budget in (1, 2, 3, 7, 31):
        result = solver.solve(problem, stop=ps.MaxSteps(budget))
        assert result.steps <= budget
        assert result.seed == 0
        assert result.solver == str(solver)


@solvers_of(large())
def test_an_optimum_stays(solver: ps.Solver) -> None:
    """Started from a planted optimum a solver stays there, and knows that nothing is better."""
    weight, order = ps.instances.planted(16, 32, "2:4", seed=1)
    problem = ps.single(weight, "2:4")
    result = solver.solve(problem, stop=ps.MaxSteps(20), start={"cols": order})
    assert result.retained == pytest.approx(1)
    assert result.status is ps.Status.OPTIMAL


@solvers_of(large())
@pytest.mark.parametrize("factor", [1e4, 1e8, 1e30])
def test_columns_that_dwarf_all_others_do_no_harm(solver: ps.Solver, factor: float) -> None:
    """Two columns many orders of magnitude above the rest neither hang nor break a search."""
    weight = ps.instances.gaussian(48, 64, seed=1).astype(np.float64)
    weight[:, [5, 40]] *= factor
    problem = ps.single(weight, "2:4")
    pt.check_result(solver.solve(problem, stop=ps.MaxSteps(300)), problem)


@solvers_of(large())
@pytest.mark.parametrize("kind", ["gaussian", "lognormal_columns", "student_t"])
def test_converged_means_that_no_swap_gains(solver: ps.Solver, kind: str) -> None:
    """A result that claims a local optimum is not improved by any swap of two columns."""
    if solver == get_solver("deal"):
        return  # its neighbourhood is another one: what stands in one place of every group
    for seed in range(3):
        problem = ps.single(ps.instances.instance(kind, 40, 48, seed=seed), "2:4")
        result = solver.solve(problem, stop=ps.MaxSteps(2000), seed=seed)
        if result.status is ps.Status.CONVERGED:
            again = Swap(kicks=0).solve(problem, start=result.solution)
            assert again.score <= result.score * (1 + 1e-6)


@given(drawn=strategies.column_problems(max_m=8), data=st.data(), seed=st.integers(0, 99))
def test_group_order_and_order_inside_a_group_are_irrelevant(
    drawn: tuple[Scores, NM], data: st.DataObject, seed: int
) -> None:
    """Shuffling whole groups of a result, and columns inside groups, keeps its score."""
    scores, pattern = drawn
    problem = ps.single(scores, pattern)
    result = get_solver("swap").solve(problem, stop=ps.MaxSteps(5), seed=seed)
    groups = result.cols.reshape(-1, pattern.m)
    groups = groups[data.draw(strategies.orders(len(groups)))]
    mixed = np.concatenate([group[data.draw(strategies.orders(pattern.m))] for group in groups])
    assert problem.evaluate({"cols": mixed}) == pytest.approx(result.score, rel=1e-12, abs=0)
