"""The loop that runs a solver over the independent parts of a problem.

A part is a stack of columns (`permsearch.solvers.columns`) or a weight whose own rows and columns
are free (`permsearch.solvers.matrices`).

Two ways, so that every run can be repeated by its number of steps and every part gets its turn:

- Solvers that go on until nothing improves take turns: the part with the fewest steps done is
  advanced next. Whenever the run stops, its number of steps tells where every part stood.
- Solvers with a schedule (`scheduled`) run part after part, each with the same number of steps.
  Where time is limited, the first part whose schedule is fitted to its share of the time sets
  that number for the others; so does one that the clock cuts short.

The clock is asked only after reports that count steps: two states of a run with the same number
of steps could not be told apart when it is repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.orders import Order, as_order
from permsearch.problem import Problem, Solution
from permsearch.result import SearchResult, Status
from permsearch.solvers.run import Budget, Run, Step
from permsearch.stop import Horizon, StoppingCriterion


class Part(Protocol):
    """What is searched by itself: nothing else in the problem depends on its order."""

    @property
    def effort(self) -> float:
        """Time that a step takes, in units of the solver's own: the parts' shares of the time."""

    def begin(self, solution: Solution) -> NDArray[np.int64]:
        """Return the part's own order under a solution, a copy numbered from zero."""

    def value(self, order: NDArray[np.int64], tiles: NDArray[np.int64] | None) -> float:
        """Return the retained score of an order in the problem's units, summed in float64."""

    def place(self, solution: dict[str, Order], order: NDArray[np.int64]) -> None:
        """Put the part's order into a solution."""

    def report(self, run: Run, proof: Proven, tiles: NDArray[np.int64] | None) -> None:
        """Tell the run what was proven of the part, and its tiles' own orders."""


@dataclass(frozen=True, slots=True)
class Proven:
    """What was proven of a part.

    Attributes
    ----------
    limit
        The lowest of its steps' limits, as `Step.limit` has it.
    optimum
        Its value in the problem's units, as `Part.value` has it, if no order has more.
    """

    limit: tuple[float, str] | None
    optimum: float | None


Steps: TypeAlias = Callable[[Part, NDArray[np.int64], np.random.Generator, Budget], Iterator[Step]]


@dataclass(slots=True)
class _Search:
    """One part being searched: its generator, its best order, and how it ended."""

    part: Part
    run: Run
    budget: Budget
    steps: Iterator[Step]
    best: NDArray[np.int64]
    value: float = field(init=False)
    claimed: float = 0.0
    status: Status | None = None
    planned: bool = False  # whether it has a schedule
    cut: bool = False  # whether its steps or its time ended it
    limit: tuple[float, str] | None = None  # the lowest bound it reported
    tiles: NDArray[np.int64] | None = None  # of the best order

    def __post_init__(self) -> None:
        self.value = self.part.value(self.best, None)

    def advance(self) -> bool:
        """Do one sweep; return whether the whole run stops."""
        step = next(self.steps, None)
        if step is None:
            self.status = self.status or Status.STOPPED
            return False
        self.budget.done += step.steps
        if step.limit is not None and (self.limit is None or step.limit < self.limit):
            self.limit = step.limit
        self.planned = self.planned or step.planned
        clockless = step.planned or self.budget.unclocked or step.steps == 0
        stopped = self.run.advance(step.steps, self._keep(step), planned=clockless)
        ended = self._claim(step)
        self.cut = ended is None and not clockless and self._spent
        self.status = ended or (Status.STOPPED if stopped or self.cut else None)
        return stopped

    def _claim(self, step: Step) -> Status | None:
        """Return what the step says of the order that is kept; None where the search goes on."""
        if step.optimal:
            return Status.OPTIMAL
        if step.converged:
            same = np.array_equal(step.order, self.best)
            return Status.CONVERGED if same else Status.STOPPED
        return None

    @property
    def _spent(self) -> bool:
        return self.budget.steps == 0 or self.budget.seconds == 0.0

    def _keep(self, step: Step) -> float:
        """Keep the step's candidate if it is better, valued in float64; return the gain."""
        ends = step.converged or step.optimal
        if step.value is not None:
            # what a solver ends with is valued in any case: its own value may be a rough one
            if step.value <= self.claimed and not ends:
                return 0.0
            self.claimed = step.value
        order = as_order(step.order, len(self.best), "the order that the solver yields")
        value = self.part.value(order, step.tiles)
        # of equals, the one that a claim of convergence is about
        if value < self.value or (value == self.value and not ends):
            return 0.0
        gain, self.value, self.best, self.tiles = value - self.value, value, order, step.tiles
        return gain

    def place(self, solution: dict[str, Order]) -> None:
        """Put the best order into the solution; tell the run what was proven."""
        proof = Proven(self.limit, self.value if self.status is Status.OPTIMAL else None)
        self.part.report(self.run, proof, self.tiles)
        self.part.place(solution, self.best)


@dataclass(frozen=True, slots=True)
class Method:
    """A solver as the loop sees it.

    Attributes
    ----------
    solver
        What the result calls it.
    steps
        Returns the generator that searches a part.
    scheduled
        Whether it plans a schedule over all the steps or time it is given.
    """

    solver: object
    steps: Steps
    scheduled: bool


def solve_parts(
    method: Method,
    problem: Problem,
    find: Callable[[Problem], Iterator[Part]],
    *,
    stop: StoppingCriterion,
    start: Mapping[str, ArrayLike] | None,
    seed: int,
) -> SearchResult:
    """Run a method on the independent parts that `find` yields, and return the result."""
    run = Run.begin(problem, start, stop)
    solution = dict(run.start)
    found = list(find(problem))
    if run.advance(0, 0.0):
        statuses = [Status.STOPPED] * len(found)
    elif method.scheduled:
        statuses = _one_by_one(method, found, solution, seed, run)
    else:
        statuses = _in_turns(method, found, solution, seed, run)
    # without parts nothing is left to search, unless tiles keep orders that no part stands for
    status = _weakest(statuses) if found or not problem.searched else Status.STOPPED
    return run.result(method.solver, solution, status, seed)


def _begin(
    method: Method, part: Part, solution: Solution, budget: Budget, seed: list[int]
) -> _Search:
    order = part.begin(solution)
    rng = np.random.default_rng(seed)
    steps = method.steps(part, order.copy(), rng, budget)
    return _Search(part, budget.run, budget, steps, order)


def _in_turns(
    method: Method, found: Sequence[Part], solution: dict[str, Order], seed: int, run: Run
) -> list[Status]:
    limit = run.stop.horizon.steps
    searches = [
        _begin(method, part, solution, Budget(run, limit), [seed, index])
        for index, part in enumerate(found)
    ]
    turns = [(0, index) for index in range(len(searches))]
    stopped = False
    while turns and not stopped:
        _, index = heapq.heappop(turns)
        search = searches[index]
        stopped = search.advance() or search.cut
        if search.status is None:
            heapq.heappush(turns, (search.budget.done, index))
    for search in searches:
        search.place(solution)
    return [search.status or Status.STOPPED for search in searches]


def _one_by_one(
    method: Method, found: Sequence[Part], solution: dict[str, Order], seed: int, run: Run
) -> list[Status]:
    limit = run.stop.horizon.steps
    share = None if limit is None else limit // max(1, len(found))
    most = 0  # steps that a part did
    granted: int | None = None  # steps a part, once time has cut them
    statuses: list[Status] = []
    efforts = [part.effort for part in found]
    left = sum(efforts)
    # the largest first: its speed is what the time of a step is known best from
    for index in sorted(range(len(found)), key=lambda i: -efforts[i]):
        if granted is not None:
            budget = Budget(run, run.step + granted).without_time()
        else:
            steps = None if share is None else run.step + share
            budget = Budget(run, steps, efforts[index] / left)
        left -= efforts[index]
        search = _begin(method, found[index], solution, budget, [seed, index])
        stopped = budget.steps == 0
        while search.status is None and not stopped:
            stopped = search.advance()
        search.place(solution)
        statuses.append(search.status or Status.STOPPED)
        most = max(most, budget.done)
        if budget.timed and (search.planned or search.cut or stopped):
            granted = most if share is None or most < share else None
        if stopped and (granted is None or run.advance(0, 0.0, planned=True)):
            break
    if run.stop.horizon != Horizon():
        run.step = max(run.step, most * len(found))  # those that ended by themselves had as many
    return statuses + [Status.STOPPED] * (len(found) - len(statuses))


def _weakest(statuses: list[Status]) -> Status:
    """Return the weakest claim of the parts; a problem without parts is solved."""
    for status in (Status.STOPPED, Status.CONVERGED):
        if status in statuses:
            return status
    return Status.OPTIMAL
