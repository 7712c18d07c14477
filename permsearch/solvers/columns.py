"""The loop that runs a column solver over the independent stacks of a problem.

Two ways, so that every run can be repeated by its number of steps and every stack gets its turn:

- Solvers that go on until nothing improves take turns: the stack with the fewest steps done is
  advanced next. Whenever the run stops, its number of steps tells where every stack stood.
- Solvers with a schedule (`scheduled`) run stack after stack, each with the same number of steps.
  Where time is limited, the first stack whose schedule is fitted to its share of the time sets
  that number for the others; so does one that the clock cuts short.

The clock is asked only after reports that count steps: two states of a run with the same number
of steps could not be told apart when it is repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.orders import as_order
from permsearch.problem import Problem, Solution
from permsearch.result import SearchResult, Status
from permsearch.solvers.run import Budget, Run, Step
from permsearch.stack import Piece, pieces
from permsearch.stop import Horizon

if TYPE_CHECKING:
    from permsearch.solvers.base import ColumnSolver
    from permsearch.stop import StoppingCriterion

_ASSIGNMENT = 60  # of n groups: n ** 2.5 times as many entries could be priced meanwhile
_OVERHEAD = 5e5  # entries that could be priced while a step does nothing


@dataclass(slots=True)
class _Search:
    """One piece being searched: its generator, its best order, and how it ended."""

    piece: Piece
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

    def __post_init__(self) -> None:
        self.value = self.piece.stack.total(self.best)

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
        value = self.piece.stack.total(order)
        # of equals, the one that a claim of convergence is about
        if value < self.value or (value == self.value and not ends):
            return 0.0
        gain, self.value, self.best = value - self.value, value, order
        return gain


def solve_columns(
    solver: ColumnSolver,
    problem: Problem,
    *,
    stop: StoppingCriterion,
    start: Mapping[str, ArrayLike] | None,
    seed: int,
    variables: Collection[str] | None = None,
) -> SearchResult:
    """Run a column solver on every independent stack of a problem and return the result.

    `variables` restricts the search to some of the problem's variables.
    """
    run = Run.begin(problem, start, stop)
    solution = dict(run.start)
    found = list(pieces(problem, variables))
    if run.advance(0, 0.0):
        statuses = [Status.STOPPED] * len(found)
    elif solver.scheduled:
        statuses = _one_by_one(solver, found, solution, seed, run)
    else:
        statuses = _in_turns(solver, found, solution, seed, run)
    return run.result(solver, solution, _weakest(statuses), seed)


def _begin(
    solver: ColumnSolver, piece: Piece, solution: Solution, budget: Budget, seed: list[int]
) -> _Search:
    order = piece.local(solution[piece.variable])
    rng = np.random.default_rng(seed)
    steps = solver._run(piece.stack, order.copy(), rng, budget)  # noqa: SLF001
    return _Search(piece, budget.run, budget, steps, order)


def _in_turns(
    solver: ColumnSolver,
    found: list[Piece],
    solution: dict[str, NDArray[np.intp]],
    seed: int,
    run: Run,
) -> list[Status]:
    limit = run.stop.horizon.steps
    searches = [
        _begin(solver, piece, solution, Budget(run, limit), [seed, index])
        for index, piece in enumerate(found)
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
        _place(search, solution)
    return [search.status or Status.STOPPED for search in searches]


def _one_by_one(
    solver: ColumnSolver,
    found: list[Piece],
    solution: dict[str, NDArray[np.intp]],
    seed: int,
    run: Run,
) -> list[Status]:
    limit = run.stop.horizon.steps
    share = None if limit is None else limit // max(1, len(found))
    most = 0  # steps that a piece did
    granted: int | None = None  # steps a piece, once time has cut them
    statuses: list[Status] = []
    efforts = [_effort(piece) for piece in found]
    left = sum(efforts)
    # the largest first: its speed is what the time of a step is known best from
    for index in sorted(range(len(found)), key=lambda i: -efforts[i]):
        piece = found[index]
        if granted is not None:
            budget = Budget(run, run.step + granted).without_time()
        else:
            steps = None if share is None else run.step + share
            budget = Budget(run, steps, efforts[index] / left)
        left -= efforts[index]
        search = _begin(solver, piece, solution, budget, [seed, index])
        stopped = budget.steps == 0
        while search.status is None and not stopped:
            stopped = search.advance()
        _place(search, solution)
        statuses.append(search.status or Status.STOPPED)
        most = max(most, budget.done)
        if budget.timed and (search.planned or search.cut or stopped):
            granted = most if share is None or most < share else None
        if stopped and (granted is None or run.advance(0, 0.0, planned=True)):
            break
    if run.stop.horizon != Horizon():
        run.step = max(run.step, most * len(found))  # those that ended by themselves had as many
    return statuses + [Status.STOPPED] * (len(found) - len(statuses))


def _effort(piece: Piece) -> float:
    """Return the time of an annealing step, in entries priced: prices, assignment, overhead."""
    columns, rows = piece.stack.columns.shape
    groups = columns // piece.stack.m
    return float(groups**2 * rows + _ASSIGNMENT * groups**2.5 + _OVERHEAD)


def _place(search: _Search, solution: dict[str, NDArray[np.intp]]) -> None:
    limit = search.limit
    if search.status is Status.OPTIMAL:
        limit = (search.value, "exact")
    if limit is not None:
        search.run.limits.append((search.piece, *limit))
    name = search.piece.variable
    solution[name] = search.piece.place(solution[name], search.best)


def _weakest(statuses: list[Status]) -> Status:
    """Return the weakest claim of the pieces; a problem without pieces is solved."""
    for status in (Status.STOPPED, Status.CONVERGED):
        if status in statuses:
            return status
    return Status.OPTIMAL
