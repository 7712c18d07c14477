"""The conformance kit passes honest solvers and patterns, and catches every broken promise."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import permsearch as ps
import permsearch.testing as pt
from permsearch.domains import Free, Segments
from permsearch.patterns import NM, Axis, Mask
from permsearch.problem import Problem, Term
from permsearch.solvers.base import ColumnSolver, Step
from permsearch.solvers.random import RandomOrders
from tests import reference
from tests.strategies import Scores

PROBLEMS = pt.tiny_problems()


# ------------------------------------------------------------------------------ the oracle


@pytest.mark.parametrize("name", ["gaussian-2:4", "gaussian-1:2", "gaussian-3:4", "thirds-1:3"])
def test_enumeration_finds_what_recursion_finds(name: str) -> None:
    """The oracle of the kit agrees with an independent recursion over partitions."""
    problem = PROBLEMS[name]
    (term,) = problem.terms
    assert isinstance(term.pattern, NM)
    value, solution = pt.best_by_enumeration(problem)
    expected, _ = reference.best_partition(term.scores, term.pattern.n, term.pattern.m)
    assert value == pytest.approx(expected, rel=1e-12)
    assert problem.evaluate(solution) == value


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())
def test_enumeration_is_never_beaten(problem: Problem) -> None:
    """No random solution retains more than the enumerated optimum, and no bound is below it."""
    value, _ = pt.best_by_enumeration(problem)
    close = 1e-9 * problem.total
    for seed in range(20):
        assert problem.evaluate(ps.random_solution(problem, seed=seed)) <= value + close
    assert ps.bound(problem).value >= value - close


def test_variables_that_share_a_value_are_enumerated_together() -> None:
    """Two variables of one term are tried in all combinations."""
    a, b = Segments((2, 2)), Segments((2, 2))
    weight = np.abs(ps.instances.gaussian(4, 4, seed=1))

    @dataclass(frozen=True, slots=True)
    class Diagonal:
        """Keep the diagonal: the value depends on rows and columns at once."""

        axes: frozenset[Axis] = frozenset({"rows", "cols"})
        density: float = 0.25

        def check(self, shape: tuple[int, ...]) -> None:
            del shape

        def keep(self, scores: Scores) -> Mask:
            return np.eye(len(scores), dtype=np.bool_)

        def retained(self, scores: Scores) -> float:
            return float(np.trace(scores))

        def accepts(self, mask: Mask) -> bool:
            return bool((mask <= np.eye(len(mask), dtype=np.bool_)).all())

    problem = Problem({"a": a, "b": b}, (Term(weight, Diagonal(), "a", "b"),))
    value, _ = pt.best_by_enumeration(problem)
    blocks = (weight[:2, :2], weight[2:, 2:])
    expected = sum(max(np.trace(block), np.trace(block[::-1])) for block in blocks)
    assert value == pytest.approx(expected)
    pt.check_solver(RandomOrders(), problem)


# ------------------------------------------------------------------------------ broken solvers

Change = Callable[[Problem, ps.SearchResult], ps.SearchResult]


@dataclass(frozen=True)
class Broken:
    """An honest solver whose result is tampered with."""

    change: Change
    honest: ps.Solver = field(default_factory=RandomOrders)

    def supports(self, problem: Problem) -> str | None:
        """Every problem is supported."""
        return self.honest.supports(problem)

    def solve(
        self,
        problem: Problem,
        *,
        stop: ps.StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> ps.SearchResult:
        """Return the tampered result."""
        return self.change(problem, self.honest.solve(problem, stop=stop, start=start, seed=seed))


def _with(**changes: Any) -> Change:
    return lambda problem, result: replace(result, **changes)


def _backwards(problem: Problem, result: ps.SearchResult) -> ps.SearchResult:
    """Return the worst of some orders, with its true score."""
    worst = min((ps.random_solution(problem, seed=s) for s in range(50)), key=problem.evaluate)
    return replace(result, solution=worst, score=problem.evaluate(worst), trace=())


def _worse_with_its_own_baseline(problem: Problem, result: ps.SearchResult) -> ps.SearchResult:
    worse = _backwards(problem, result)
    return replace(worse, baseline=worse.score)


def _order(*order: int) -> Change:
    return lambda problem, result: replace(result, solution={"cols": np.array(order)})


_CALLS = itertools.count()


def _unseeded(problem: Problem, result: ps.SearchResult) -> ps.SearchResult:
    """Return an equally good order, another one at every call."""
    turned = np.roll(result.solution["cols"].reshape(2, 4), next(_CALLS), axis=1).ravel()
    score = problem.evaluate({"cols": turned})
    return replace(result, solution={"cols": turned}, score=max(score, result.baseline))


def _overwriting(problem: Problem, result: ps.SearchResult) -> ps.SearchResult:
    problem.terms[0].scores[:] *= 2
    doubled = ("score", "baseline", "bound", "ceiling", "total")
    return replace(result, trace=(), **{name: 2 * getattr(result, name) for name in doubled})


def _falling(problem: Problem, result: ps.SearchResult) -> ps.SearchResult:
    point = result.trace[0]
    return replace(result, trace=(*result.trace, replace(point, score=point.score / 2)))


MUTANTS: dict[str, tuple[Change, str]] = {
    "below-start": (_backwards, "score is below the start's"),
    "own-baseline": (_worse_with_its_own_baseline, "baseline is not the start's score"),
    "boasts": (
        lambda problem, result: replace(result, score=result.score * 1.001, trace=()),
        "score is not the recomputed score",
    ),
    "not-a-number": (_with(score=float("nan")), "score is not the recomputed score"),
    "claims-optimal": (_with(status=ps.Status.OPTIMAL), "claims an optimum that it missed"),
    "low-bound": (
        lambda problem, result: replace(result, bound=result.score),
        "the bound is below the optimum",
    ),
    "bound-below-score": (_with(bound=0.0), "score exceeds the bound"),
    "silly-bound": (
        lambda problem, result: replace(result, bound=2 * problem.total),
        "the bound exceeds the total",
    ),
    "wrong-total": (_with(total=1.0), "total is not the sum of the scores"),
    "not-an-order": (_order(0, 0, 1, 2, 3, 4, 5, 6), "the order of 'cols' is not legal"),
    "too-short": (_order(0, 1, 2, 3), "the order of 'cols' is not legal"),
    "no-order": (_with(solution={}), "the solution does not order cols"),
    "unseeded": (_unseeded, "same seed and steps, another order"),
    "one-step-more": (
        lambda problem, result: replace(result, steps=result.steps + 1),
        "of at most",
    ),
    "negative-time": (_with(runtime=-1.0), "negative steps or seconds"),
    "falling-trace": (_falling, "the trace of best scores falls"),
    "overwrites-scores": (_overwriting, "changed the scores"),
}


@pytest.mark.parametrize(("change", "words"), MUTANTS.values(), ids=MUTANTS.keys())
def test_broken_solvers_are_caught(change: Change, words: str) -> None:
    """Each broken promise ends in an AssertionError that names it."""
    problem = ps.single(ps.instances.gaussian(6, 8, seed=3), "2:4")
    with pytest.raises(AssertionError, match=re.escape(words)):
        pt.check_solver(Broken(change), problem, steps=3)


def test_the_honest_solver_behind_the_mutants_passes() -> None:
    """Without tampering the same solver keeps every promise."""
    problem = ps.single(ps.instances.gaussian(6, 8, seed=3), "2:4")
    pt.check_solver(Broken(lambda problem, result: result), problem, steps=3)


def test_illegal_orders_of_a_domain_are_caught() -> None:
    """An order that mixes segments is no legal order, however good."""
    problem = ps.single(
        ps.instances.gaussian(6, 8, seed=3), "1:2", permute={"cols": Segments((4, 4))}
    )
    with pytest.raises(AssertionError, match="not legal"):
        pt.check_solver(Broken(_order(4, 1, 2, 3, 0, 5, 6, 7)), problem, steps=3)


@dataclass(frozen=True)
class Stubborn(Broken):
    """A solver that says no and does it all the same."""

    def supports(self, problem: Problem) -> str | None:
        """No problem is supported."""
        return "not today"


def test_a_refusal_must_be_meant() -> None:
    """A solver that says it does not support a problem must not solve it."""
    problem = ps.single(ps.instances.gaussian(6, 8, seed=3), "2:4")
    with pytest.raises(AssertionError, match="does not support"):
        pt.check_solver(Stubborn(lambda problem, result: result), problem)


@dataclass(frozen=True)
class Grabbing(Broken):
    """A solver that reorders the start it was given in place."""

    def solve(self, problem: Problem, **options: Any) -> ps.SearchResult:
        """Return the honest result after spoiling the start."""
        result = self.honest.solve(problem, **options)
        for order in (options.get("start") or {}).values():
            order[:] = order[::-1].copy()
        return result


def test_a_start_must_not_be_changed() -> None:
    """The caller's orders are the caller's."""
    problem = ps.single(ps.instances.gaussian(6, 8, seed=3), "2:4")
    with pytest.raises(AssertionError, match="changed the start"):
        pt.check_solver(Grabbing(lambda problem, result: result), problem)


# ------------------------------------------------------------------------------ broken patterns


@dataclass(frozen=True)
class Tampered:
    """A 2:4 pattern with one method replaced."""

    keeper: Callable[[Scores], Mask] | None = None
    valuer: Callable[[Scores], float] | None = None
    accepting: bool | None = None
    axes: frozenset[Axis] = frozenset({"cols"})
    density: float = 0.5

    def check(self, shape: tuple[int, ...]) -> None:
        """Check as 2:4 does."""
        NM(2, 4).check(shape)

    def keep(self, scores: Scores) -> Mask:
        """Keep as told, or as 2:4 does."""
        return self.keeper(scores) if self.keeper else NM(2, 4).keep(scores)

    def retained(self, scores: Scores) -> float:
        """Value as told, or as the mask says."""
        if self.valuer:
            return self.valuer(scores)
        return float(scores[self.keep(scores)].sum(dtype=np.float64))

    def accepts(self, mask: Mask) -> bool:
        """Accept as told, or as 2:4 does."""
        return NM(2, 4).accepts(mask) if self.accepting is None else self.accepting


def _smallest(scores: Scores) -> Mask:
    return NM(2, 4).keep(scores.max() - scores)


def _spoiling(scores: Scores) -> Mask:
    mask = NM(2, 4).keep(scores)
    scores[~mask] = 0
    return mask


PATTERN_MUTANTS: dict[str, tuple[Tampered, str]] = {
    "keeps-the-smallest": (Tampered(_smallest), "masking a masked weight again"),
    "keeps-too-few": (Tampered(lambda s: NM(1, 4).keep(s)), "does not return the best mask"),
    "keeps-too-much": (Tampered(lambda s: np.ones(s.shape, np.bool_)), "does not accept its own"),
    "wrong-shape": (Tampered(lambda s: NM(2, 4).keep(s)[:1]), "another shape"),
    "wrong-type": (Tampered(lambda s: NM(2, 4).keep(s).astype(int)), "another shape"),
    "spoils-scores": (Tampered(_spoiling), "keep changed the scores"),
    "boasts": (Tampered(valuer=lambda s: float(s.sum())), "keep and retained disagree"),
    "accepts-nothing": (Tampered(accepting=False), "does not accept its own best mask"),
    "accepts-anything": (Tampered(accepting=True), "does not return the best mask"),
    "hides-an-axis": (Tampered(axes=frozenset()), "the order of the cols does matter"),
}


@pytest.mark.parametrize(("pattern", "words"), PATTERN_MUTANTS.values(), ids=PATTERN_MUTANTS.keys())
def test_broken_patterns_are_caught(pattern: Tampered, words: str) -> None:
    """Each broken promise of a pattern ends in an AssertionError that names it."""
    with pytest.raises(AssertionError, match=re.escape(words)):
        _check_on_both(pattern)


def _check_on_both(pattern: Tampered) -> None:
    """Check on scores of several groups and on ones small enough to try every mask."""
    few = np.array([[1.0, 4.0, 2.0, 3.0], [9.0, 8.0, 7.0, 6.0]])
    for scores in (few, np.abs(ps.instances.gaussian(2, 8, seed=2))):
        pt.check_pattern(pattern, scores)


def test_a_pattern_of_ones_own_passes() -> None:
    """The kit takes patterns that the parser does not know."""
    pt.check_pattern(Tampered(), np.abs(ps.instances.gaussian(3, 8, seed=2)))
    problem = Problem(
        {"c": Free(8)}, (Term(np.abs(ps.instances.gaussian(3, 8, seed=2)), Tampered(), cols="c"),)
    )
    pt.check_solver(RandomOrders(), problem, steps=10)


@dataclass(frozen=True)
class Doubling(ColumnSolver):
    """Puts one column into two places."""

    last: int = 0

    def _run(self, stack: Any, order: Any, rng: Any, budget: Any) -> Any:
        del rng
        order[0] = order[-1] if not self.last else self.last
        yield Step(min(1, budget.sweep(1)), order, float("inf"))


@pytest.mark.parametrize("last", [0, 99])
def test_orders_that_are_none_break_a_promise(last: int) -> None:
    """A solver that yields no permutation is told by AssertionError, as every broken promise."""
    with pytest.raises(AssertionError, match="Doubling"):
        pt.check_solver(Doubling(last), PROBLEMS["scaled-2:4"])
