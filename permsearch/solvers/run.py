"""The state of one solve call: what it may spend, what it has found, and the result it makes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch import bounds
from permsearch.problem import Problem, Solution
from permsearch.result import SearchResult, Status, TracePoint
from permsearch.stack import Piece
from permsearch.stop import Progress, StoppingCriterion, check_criterion

_ROUNDING = 2.0**-48  # relative; two float64 sums of the same scores differ by less


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
    limit
        What no order of the stack exceeds, in the stack's units and rounded up, and the kind of
        that bound; None where the solver knows none.
    tiles
        The orders that the tiles of the pattern keep for themselves under this order, integer
        array (tiles, kept); None leaves them to the pattern.
    """

    steps: int
    order: NDArray[np.int64]
    value: float | None = None
    converged: bool = False
    optimal: bool = False
    planned: bool = False
    limit: tuple[float, str] | None = None
    tiles: NDArray[np.int64] | None = None


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


@dataclass(slots=True)
class Run:
    """The state of one solve call: the best so far and how it came about."""

    problem: Problem
    start: Solution
    stop: StoppingCriterion
    baseline: float
    clock: Clock
    closing: float  # seconds that valuing and bounding the result will take, about
    step: int = 0
    since_best: int = 0
    best: float = 0.0
    trace: list[TracePoint] = field(default_factory=list)
    limits: list[tuple[Piece, float, str]] = field(default_factory=list)  # that the solver proved
    tiles: dict[int, NDArray[np.int64]] = field(default_factory=dict)  # of the terms that have any

    @classmethod
    def begin(
        cls,
        problem: Problem,
        start: Mapping[str, ArrayLike] | None,
        stop: StoppingCriterion,
    ) -> Run:
        """Return the state before the first step."""
        clock = Clock()
        check_criterion(stop)
        solution = problem.complete(start)
        baseline = sum(term.retained(solution) for term in problem.terms)
        run = cls(problem, solution, stop, baseline, clock, clock.elapsed, best=baseline)
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

    @property
    def _narrowed(self) -> float:
        """Relative difference that a proof on float32 columns leaves open."""
        wide = any(term.scores.dtype == np.float64 for term in self.problem.terms)
        return 2.0**-22 if wide else 0.0

    def result(
        self,
        solver: Any,
        solution: Solution,
        status: Status,
        seed: int,
        details: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """Return the result: score recomputed, never below the start, bounded."""
        tiles = dict(self.tiles)
        score = self.problem.evaluate(solution, tiles)
        if score < self.baseline:
            solution, score, tiles = self.start, self.baseline, {}
        limit = bounds.by_pieces(self.problem, self.limits)
        ceiling = bounds.unconstrained(self.problem)
        attained = score >= ceiling * (1 - _ROUNDING) or not self.problem.searched
        if status is Status.OPTIMAL or attained:
            status = Status.OPTIMAL
            proven = score * (1 + self._narrowed)
            if proven < limit.value:
                limit = bounds.Bound(proven, "exact", slack=proven - score)
        elif limit.proves(score):
            status = Status.OPTIMAL
        return SearchResult(
            problem=self.problem,
            solution=solution,
            score=score,
            baseline=self.baseline,
            # a sum in another order of addition may end a few ulps above an attained bound
            bound=max(limit.value, score),
            bound_kind=limit.kind,
            ceiling=max(ceiling, score),
            total=self.problem.total,
            status=status,
            steps=self.step,
            runtime=self.clock.elapsed,
            cpu=self.clock.cpu,
            trace=tuple(replace(p, score=min(p.score, score)) for p in self.trace),
            solver=str(solver),
            seed=seed,
            details={**(details or {}), **({"tiles": tiles} if tiles else {})},
            bound_slack=limit.slack,
        )


def _below(value: float, limit: float | None) -> float:
    return value if limit is None else min(value, np.nextafter(limit, 0.0))


class Budget:
    """What one piece may spend, and the steps it has done.

    Parameters
    ----------
    run
        The solve call that the piece belongs to; its steps count against `limit`.
    limit
        Step of the run at which the piece has used its steps; None: steps are not limited.
    share
        The part of the time left that is the piece's.

    Attributes
    ----------
    done
        Steps of the piece so far.
    unclocked
        Whether the piece has to do its steps whatever the clock says.
    """

    def __init__(self, run: Run, limit: int | None, share: float = 1.0) -> None:
        self.run, self._limit = run, limit
        self.unclocked = False
        self._clock = Clock()
        horizon = run.stop.horizon
        self._seconds = _part(horizon.seconds, run.clock.elapsed + run.closing, share)
        self._cpu = _part(horizon.cpu, run.clock.cpu + run.closing, share)
        self.done = 0

    @property
    def steps(self) -> int | None:
        """Steps left, None where steps are not limited."""
        return None if self._limit is None else max(0, self._limit - self.run.step)

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
        """Whether time limits the piece."""
        return self._seconds is not None or self._cpu is not None

    @property
    def limited(self) -> bool:
        """Whether anything limits the piece in advance."""
        return self._limit is not None or self.timed

    def without_time(self) -> Budget:
        """Return the same budget with steps only: no clock cuts the piece."""
        budget = Budget(self.run, self._limit)
        budget._seconds = budget._cpu = None
        budget.unclocked = True
        return budget

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


def _part(horizon: float | None, used: float, share: float) -> float | None:
    return None if horizon is None else max(0.0, horizon - used) * share
