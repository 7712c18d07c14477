"""What every solver shares: the protocol, the run loop over stacks, and the making of results.

A column solver is a frozen dataclass with a method ``_run(stack, order, rng, budget)`` that
yields a `Step` after each bounded sweep. Everything else (variables, segments, the start, the
budget's split over pieces, keeping the best, the trace, bounds, the float64 score) is done
here, once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch import bounds
from permsearch.errors import UnsupportedProblem
from permsearch.problem import Problem, Solution
from permsearch.result import SearchResult, Status, TracePoint
from permsearch.stack import Piece, Stack, obstacle, pieces
from permsearch.stop import Horizon, Progress, StoppingCriterion


@runtime_checkable
class Solver(Protocol):
    """Anything that improves the orders of a problem."""

    def supports(self, problem: Problem) -> str | None:
        """Say why the problem cannot be solved, or None when it can."""

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return orders that retain no less than the start's."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a solver reports after a sweep.

    Attributes
    ----------
    steps
        Steps done since the last report.
    order
        The sweep's candidate: its best or current order of the stack.
    value
        The candidate's value in the stack's units where the solver knows it (8-bit or float32
        sums will do); a candidate that looks worse than the best by more than 0.1 % is not
        evaluated again. None: evaluate it.
    converged, optimal
        On the last report: the order is a local optimum of the solver's neighbourhood; no
        order is better (proven).
    planned
        The run is inside a schedule whose length was fixed from the time that was left: it is
        not cut by the clock, so that repeating the run with its steps repeats its orders.
    """

    steps: int
    order: NDArray[np.int64]
    value: float | None = None
    converged: bool = False
    optimal: bool = False
    planned: bool = False


class Clock:
    """Wall-clock and CPU seconds since its making."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    @property
    def elapsed(self) -> float:
        """Wall-clock seconds."""
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        """CPU seconds of the process."""
        return time.process_time() - self._cpu


class Budget:
    """What one piece may spend: its share of the horizon, less what it has used."""

    def __init__(self, steps: int | None, seconds: float | None, cpu: float | None) -> None:
        self._steps, self._seconds, self._cpu = steps, seconds, cpu
        self._clock = Clock()
        self.done = 0

    @property
    def steps(self) -> int | None:
        """Steps left, None where steps are not limited."""
        return None if self._steps is None else max(0, self._steps - self.done)

    @property
    def seconds(self) -> float | None:
        """Seconds left on the stricter of the limited clocks, None where time is not limited."""
        left = []
        if self._seconds is not None:
            left.append(self._seconds - self._clock.elapsed)
        if self._cpu is not None:
            left.append(self._cpu - self._clock.cpu)
        return max(0.0, min(left)) if left else None

    @property
    def timed(self) -> bool:
        """Whether time, rather than steps alone, limits the piece."""
        return self._seconds is not None or self._cpu is not None

    @property
    def limited(self) -> bool:
        """Whether anything limits the piece in advance."""
        return self._steps is not None or self.timed

    def used(self) -> float:
        """Return the seconds used so far on the clock that `seconds` counts."""
        return self._clock.cpu if self._cpu is not None else self._clock.elapsed

    def sweep(self, size: int) -> int:
        """Return the length of the next sweep: `size`, or the steps left where those are fewer."""
        return size if self.steps is None else min(size, self.steps)

    def left(self, rate: float, default: int) -> int:
        """Return how many steps still fit.

        Parameters
        ----------
        rate
            Steps a second, as measured by the caller; used where time is limited.
        default
            The answer where neither steps nor time are limited.
        """
        steps, seconds = self.steps, self.seconds
        fits = [] if steps is None else [steps]
        if seconds is not None:
            fits.append(int(rate * seconds))
        return min(fits) if fits else default


@dataclass(slots=True)
class Run:
    """The state of one solve call: the best so far and how it came about."""

    problem: Problem
    start: Solution
    stop: StoppingCriterion
    baseline: float
    clock: Clock
    step: int = 0
    since_best: int = 0
    best: float = 0.0
    trace: list[TracePoint] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        problem: Problem,
        start: Mapping[str, ArrayLike] | None,
        stop: StoppingCriterion,
    ) -> Run:
        """Return the state before the first step."""
        clock = Clock()
        solution = problem.complete(start)
        baseline = sum(term.retained(solution) for term in problem.terms)
        run = cls(problem, solution, stop, baseline, clock, best=baseline)
        run.trace.append(TracePoint(0, clock.elapsed, clock.cpu, baseline))
        return run

    def advance(self, steps: int, gain: float, *, planned: bool = False) -> bool:
        """Count steps and a rise of the best score; decide whether to stop."""
        self.step += steps
        self.since_best += steps
        if gain > 0:
            self.best += gain
            self.since_best = 0
            point = TracePoint(self.step, self.clock.elapsed, self.clock.cpu, self.best)
            self.trace.append(point)
        elapsed, cpu = self.clock.elapsed, self.clock.cpu
        if planned:  # inside a schedule fitted to the time that was left: the clock waits
            horizon = self.stop.horizon
            elapsed = _below(elapsed, horizon.seconds)
            cpu = _below(cpu, horizon.cpu)
        return self.stop(Progress(self.step, elapsed, cpu, self.best, self.since_best))

    def result(
        self,
        solver: Any,
        solution: Solution,
        status: Status,
        seed: int,
        details: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """Return the result: score recomputed, never below the start, bounded."""
        score = self.problem.evaluate(solution)
        if score < self.baseline:
            solution, score = self.start, self.baseline
        limit = bounds.cheap(self.problem)
        ceiling = bounds.unconstrained(self.problem)
        if not self.problem.sensitive or limit.proves(score):
            status = Status.OPTIMAL
        # a sum in another order of addition may end a few ulps above an attained bound
        bound, kind = (score, "exact") if status is Status.OPTIMAL else (limit.value, limit.kind)
        return SearchResult(
            problem=self.problem,
            solution=solution,
            score=score,
            baseline=self.baseline,
            bound=max(bound, score),
            bound_kind=kind,
            ceiling=max(ceiling, score),
            total=self.problem.total,
            status=status,
            steps=self.step,
            runtime=self.clock.elapsed,
            cpu=self.clock.cpu,
            trace=tuple(self.trace),
            solver=str(solver),
            seed=seed,
            details=dict(details or {}),
        )


def _below(value: float, limit: float | None) -> float:
    return value if limit is None else min(value, np.nextafter(limit, 0.0))


class ColumnSolver(Solver, Protocol):
    """A solver that works on one stack of columns at a time."""

    @property
    def default_stop(self) -> StoppingCriterion:
        """What ends a run to which no criterion was given."""

    def _run(
        self, stack: Stack, order: NDArray[np.int64], rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]: ...


def column_obstacle(problem: Problem) -> str | None:
    """Say why column solvers cannot take a problem, or None; the message names the way out."""
    for variable in problem.sensitive:
        reason = obstacle(problem, variable)
        if reason is not None:
            return f"{reason}; use solver 'local', 'random' or 'exhaustive'."
    return None


def require(solver: Solver, problem: Problem) -> None:
    """Raise UnsupportedProblem with the solver's own reason."""
    reason = solver.supports(problem)
    if reason is not None:
        raise UnsupportedProblem(f"{solver} cannot search this problem: {reason}")


def solve_columns(
    solver: ColumnSolver,
    problem: Problem,
    *,
    stop: StoppingCriterion | None,
    start: Mapping[str, ArrayLike] | None,
    seed: int,
) -> SearchResult:
    """Run a column solver on every independent stack of a problem and return the result."""
    require(solver, problem)
    run = Run.begin(problem, start, stop if stop is not None else solver.default_stop)
    solution = dict(run.start)
    found = list(pieces(problem))
    statuses = []
    stopped = False
    for index, piece in enumerate(found):
        if stopped:
            statuses.append(Status.STOPPED)
            continue
        share = _share(found, index)
        budget = _budget(run, share)
        rng = np.random.default_rng([seed, index])
        local, status, stopped = _run_piece(solver, piece, solution, rng, budget, run)
        solution[piece.variable] = piece.place(solution[piece.variable], local)
        statuses.append(status)
    return run.result(solver, solution, _weakest(statuses), seed)


def _share(found: list[Piece], index: int) -> float:
    """Return the share of what is left that piece `index` gets: by its size, last takes all."""
    sizes = [piece.stack.columns.size for piece in found[index:]]
    return sizes[0] / sum(sizes)


def _budget(run: Run, share: float) -> Budget:
    horizon: Horizon = run.stop.horizon
    steps = None if horizon.steps is None else round((horizon.steps - run.step) * share)
    seconds = None if horizon.seconds is None else (horizon.seconds - run.clock.elapsed) * share
    cpu = None if horizon.cpu is None else (horizon.cpu - run.clock.cpu) * share
    return Budget(steps, seconds, cpu)


def _run_piece(
    solver: ColumnSolver,
    piece: Piece,
    solution: Solution,
    rng: np.random.Generator,
    budget: Budget,
    run: Run,
) -> tuple[NDArray[np.int64], Status, bool]:
    """Return the best local order, how the piece ended, and whether the whole run stops."""
    best = piece.local(solution[piece.variable])
    if budget.steps == 0 or run.advance(0, 0.0):
        return best, Status.STOPPED, run.advance(0, 0.0)
    best_value = piece.stack.total(best)
    last: Step | None = None
    for last in solver._run(piece.stack, best.copy(), rng, budget):  # noqa: SLF001
        budget.done += last.steps
        gain = 0.0
        if last.value is None or last.value * piece.stack.scale > best_value * (1 - 1e-3):
            value = piece.stack.total(last.order)
            if value > best_value:
                gain, best_value, best = value - best_value, value, last.order.copy()
        if run.advance(last.steps, gain, planned=last.planned):
            return best, _ending(last), True
        if not last.planned and _spent(budget):
            break
    return best, _ending(last), False


def _spent(budget: Budget) -> bool:
    return budget.steps == 0 or budget.seconds == 0.0


def _ending(last: Step | None) -> Status:
    if last is not None and last.optimal:
        return Status.OPTIMAL
    return Status.CONVERGED if last is not None and last.converged else Status.STOPPED


def _weakest(statuses: list[Status]) -> Status:
    """Return the weakest claim of the pieces; a problem without pieces is solved."""
    for status in (Status.STOPPED, Status.CONVERGED):
        if status in statuses:
            return status
    return Status.OPTIMAL
