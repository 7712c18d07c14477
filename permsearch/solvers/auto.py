"""The portfolio: the method that shape, pattern and budget call for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from numpy.typing import ArrayLike, NDArray

from permsearch.patterns import (
    NM,
    VNM,
    Block,
    HiNM,
    TileWise,
    TransposableNM,
    UnalignedBlock,
    VectorWise,
)
from permsearch.problem import Problem, Term
from permsearch.result import SearchResult, Status
from permsearch.solvers.anneal import Anneal
from permsearch.solvers.base import Budget, ColumnSolver, Step
from permsearch.solvers.columns import solve_columns
from permsearch.solvers.compose import Share, joined
from permsearch.solvers.exhaustive import MAX_COLUMNS, Exhaustive
from permsearch.solvers.local import Local
from permsearch.solvers.matching import Matching
from permsearch.solvers.matrices import MatrixSolver, matrix_obstacle, solve_matrices
from permsearch.solvers.registry import get_solver
from permsearch.stack import Stack, obstacle
from permsearch.stop import AnyOf, MaxSteps, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np

_MATCHED = 1024  # columns up to which 1:2 is solved to proven optimality at any budget
_LOCAL_STEPS = 20_000  # swaps tried on what no other solver takes
Start: TypeAlias = Mapping[str, ArrayLike] | None
# What searches for a pattern that is not N:M, by its kind.
_PREFERRED: dict[type, str] = {
    Block: "blocks",
    TransposableNM: "transposable",
    UnalignedBlock: "blocks",
    VectorWise: "shuffle",
    TileWise: "shuffle",
    VNM: "vnm",
    HiNM: "hinm",
}
_NAMES = {Exhaustive: "exhaustive", Matching: "matching", Anneal: "anneal"}
# What a step costs for an entry of the weights, in multiples of annealing's, about: it sets how
# many steps the parts of one problem get, and has to be the same on every machine.
_PRICES = {"shuffle": 4, "blocks": 60, "hinm": 120, "vnm": 700, "transposable": 1200}
_COLUMNS_PRICE, _SWAPS_PRICE = 1, 600
_OVERHEAD = 1024  # what a step costs beside its entries, in entries


@dataclass(frozen=True, slots=True)
class Auto(ColumnSolver):
    """Search each part of a problem by the method that suits it.

    - up to 16 columns: `exhaustive`, proven;
    - 1:2 up to 1024 columns: `matching`, proven, whatever the budget;
    - everything else that is N:M: `anneal`, whose schedule fills the budget;
    - a weight of another pattern whose axes are free and its own: the solver of that pattern;
    - what is left (units that straddle groups, ragged segments, weights of other patterns that
      share an axis): `local`, with 20,000 steps at most.

    Steps are those of the method that is used; without a criterion each method has its own
    default. A result names the methods in its ``details["methods"]``. Where a problem needs several
    they run one after another, those of cheap steps first. Of N steps the first method does N
    divided by the number of methods, and the others as many of theirs as cost about the same.
    """

    scheduled: ClassVar[bool] = True

    @property
    def default_stop(self) -> StoppingCriterion:
        """Anneal's default."""
        return Anneal().default_stop

    def supports(self, problem: Problem) -> str | None:
        """Every problem is supported."""
        del problem
        return None

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""
        ways = _ways(self, problem)
        if len(ways) == 1:
            only = ways[0]
            found = only.solve(only.default_stop if stop is None else stop, start, seed)
            return _told(replace(found, solver=str(self)), ways)
        ways.sort(key=lambda way: way.price)
        return _told(_in_parts(self, problem, ways, stop, start, seed), ways)

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        return method_for(len(stack.columns), stack.m)._run(stack, order, rng, budget)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class _Way:
    """A method and the part of a problem that it searches."""

    methods: tuple[str, ...]  # short names
    default_stop: StoppingCriterion
    solve: Callable[[StoppingCriterion, Start, int], SearchResult]
    price: int  # what a step costs, about
    most: int | None = None  # steps that it is given at most

    def granted(self, work: int) -> StoppingCriterion:
        """Return the criterion of as many steps as may be paid for."""
        steps = work // self.price
        return MaxSteps(steps if self.most is None else min(steps, self.most))

    def limited(self, stop: StoppingCriterion) -> StoppingCriterion:
        """Return a criterion that ends no later than the way has to."""
        return stop if self.most is None else AnyOf(MaxSteps(self.most), stop)


def _told(result: SearchResult, ways: list[_Way]) -> SearchResult:
    """Return a result that names the methods, in the order they ran."""
    names = dict.fromkeys(name for way in ways for name in way.methods)
    return replace(result, details={**result.details, "methods": tuple(names)}) if names else result


def _ways(auto: Auto, problem: Problem) -> list[_Way]:
    """Return how the parts of a problem are searched; one way at least."""
    odd = {name for name in problem.sensitive if obstacle(problem, name) is not None}
    plain = set(problem.sensitive) - odd
    found = weights(problem)
    ways = [_columns(auto, problem, plain)] if plain or not (odd or found) else []
    for name, terms in found.items():
        ways.append(_matrices(name, problem, terms))
        odd -= {variable for index in terms for variable in problem.terms[index].sensitive}
    return [*ways, _swaps(problem, odd)] if odd else ways


def weights(problem: Problem) -> dict[str, list[int]]:
    """Return the terms that a solver of their pattern takes, by the solver's name."""
    found: dict[str, list[int]] = {}
    for index in problem.searched:
        term = problem.terms[index]
        name = next((n for kind, n in _PREFERRED.items() if isinstance(term.pattern, kind)), None)
        if name is None or matrix_obstacle(problem, term):
            continue
        solver = get_solver(name)
        assert isinstance(solver, MatrixSolver)
        if solver.refuses(problem, term) is None:
            found.setdefault(name, []).append(index)
    return found


def _columns(auto: Auto, problem: Problem, variables: set[str]) -> _Way:
    def run(stop: StoppingCriterion, start: Start, seed: int) -> SearchResult:
        return solve_columns(auto, problem, stop=stop, start=start, seed=seed, variables=variables)

    terms = [term for name in variables for term in problem.terms_on(name)]
    methods = _column_methods(problem, variables)
    return _Way(methods, auto.default_stop, run, _COLUMNS_PRICE * _entries(terms))


def _column_methods(problem: Problem, variables: set[str]) -> tuple[str, ...]:
    """Return the names of the methods for those variables' stacks; none where no order matters."""
    found: dict[str, None] = {}
    for name in sorted(variables):
        pattern, domain = next(problem.terms_on(name)).pattern, problem.domains[name]
        assert isinstance(pattern, NM)
        for columns in domain.segments if domain.width == 1 else ():
            if columns > pattern.m:
                found[_NAMES[type(method_for(columns, pattern.m))]] = None
    return tuple(found)


def _matrices(name: str, problem: Problem, terms: list[int]) -> _Way:
    solver = get_solver(name)
    assert isinstance(solver, MatrixSolver)

    def run(stop: StoppingCriterion, start: Start, seed: int) -> SearchResult:
        return solve_matrices(solver, problem, stop=stop, start=start, seed=seed, terms=terms)

    price = _PRICES[name] * _entries([problem.terms[index] for index in terms])
    return _Way((name,), solver.default_stop, run, price)


def _swaps(problem: Problem, variables: set[str]) -> _Way:
    local = Local(variables=tuple(sorted(variables)))

    def run(stop: StoppingCriterion, start: Start, seed: int) -> SearchResult:
        return local.solve(problem, stop=stop, start=start, seed=seed)

    terms = [term for name in variables for term in problem.terms_on(name)]
    price = _SWAPS_PRICE * _entries(terms)
    return _Way(("local",), MaxSteps(_LOCAL_STEPS), run, price, _LOCAL_STEPS)


def _entries(terms: list[Term]) -> int:
    """Return the size of the largest weight, and what a step costs whatever the size."""
    return _OVERHEAD + max((term.scores.size for term in terms), default=0)


def _in_parts(
    auto: Auto,
    problem: Problem,
    ways: list[_Way],
    stop: StoppingCriterion | None,
    start: Start,
    seed: int,
) -> SearchResult:
    """Search the parts one after another, cheap ones first, each in its share of the budget.

    The part that the clock stops sets the pace: steps of that price are all the later ones go by,
    so that as many steps repeat the run.
    """
    share = None if stop is None else Share(stop, len(ways))
    steps = None if share is None else share.horizon.steps
    work = None if steps is None else steps * ways[0].price
    result: SearchResult | None = None
    for way in ways:
        limit = way.limited(share or way.default_stop) if work is None else way.granted(work)
        found = way.solve(limit, start if result is None else result.solution, seed)
        if share is not None and work is None and found.status is not Status.OPTIMAL:
            work = found.steps * way.price
        result = found if result is None else _followed(problem, result, found, auto)
    assert result is not None
    if share is None or work is None:
        return result
    return replace(result, steps=len(ways) * -(-work // ways[0].price))


def _followed(
    problem: Problem, result: SearchResult, following: SearchResult, auto: Auto
) -> SearchResult:
    """Return the result of a run whose next part was another one's."""
    tiles = {**result.tiles, **following.tiles}
    score = problem.evaluate(following.solution, tiles)
    ahead = result.score - following.baseline  # what the tiles' own orders hold, not handed on
    trace = tuple(
        replace(point, score=min(score, max(result.score, point.score + ahead)))
        for point in following.trace
    )
    return replace(
        joined(result, replace(following, trace=trace), str(auto)),
        solution=following.solution,
        score=score,
        details={"tiles": tiles} if tiles else {},
        status=result.status if result.status is Status.STOPPED else following.status,
    )


def method_for(columns: int, m: int) -> ColumnSolver:
    """Return the method for a stack of so many columns in groups of `m`."""
    if columns <= MAX_COLUMNS:
        return Exhaustive()
    if m == 2 and columns <= _MATCHED:
        return Matching()
    return Anneal()
