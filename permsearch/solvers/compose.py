"""Solvers made of solvers: one after another, and many starts with the best kept."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from permsearch.checks import whole
from permsearch.problem import Problem, Solution, random_solution
from permsearch.result import SearchResult, Status, TracePoint
from permsearch.solvers.base import Solver, require
from permsearch.solvers.registry import get_solver
from permsearch.stop import Horizon, MaxSteps, Progress, StoppingCriterion


@dataclass(frozen=True, slots=True)
class Rest:
    """A criterion as it looks to a run that begins after another has used some of it."""

    whole: StoppingCriterion
    used: SearchResult

    @property
    def horizon(self) -> Horizon:
        """What is left of the whole's horizon."""
        whole = self.whole.horizon
        return Horizon(
            None if whole.steps is None else max(0, whole.steps - self.used.steps),
            None if whole.seconds is None else max(0.0, whole.seconds - self.used.runtime),
            None if whole.cpu is None else max(0.0, whole.cpu - self.used.cpu),
        )

    def __call__(self, progress: Progress, /) -> bool:
        """Ask the whole criterion about the whole progress."""
        return self.whole(
            replace(
                progress,
                step=progress.step + self.used.steps,
                elapsed=progress.elapsed + self.used.runtime,
                cpu=progress.cpu + self.used.cpu,
            )
        )


def joined(first: SearchResult, second: SearchResult, solver: str) -> SearchResult:
    """Return the second result as the end of one run that began with the first.

    The tiles' own orders are not handed on with a start, so the second may end below the first;
    the better of the two is what the run has found.
    """
    best = first if first.score > second.score else second
    moved = tuple(
        TracePoint(
            point.step + first.steps,
            point.elapsed + first.runtime,
            point.cpu + first.cpu,
            point.score,
        )
        for point in second.trace[1:]
    )
    return replace(
        second,
        solution=best.solution,
        score=best.score,
        details=best.details,
        baseline=first.baseline,
        steps=first.steps + second.steps,
        runtime=first.runtime + second.runtime,
        cpu=first.cpu + second.cpu,
        trace=first.trace + moved,
        solver=solver,
    )


@dataclass(frozen=True, slots=True, init=False)
class Then:
    """Run solvers one after another, each from the orders of the one before.

    Each runs until it ends by itself or the criterion fires; a solver whose schedule takes
    all that is left (`anneal`) belongs at the end. Steps are the sum of the parts' steps.

    Parameters
    ----------
    *parts
        Short names or solver values.

    Raises
    ------
    ValueError
        Without parts, or with a list of them in place of the parts.
    UnknownName
        A part is neither a known name nor a solver.

    Examples
    --------
    >>> Then("none", "random")
    Then(parts=(NoSearch(), RandomOrders()))
    """

    parts: tuple[Solver, ...]

    def __init__(self, *parts: str | Solver) -> None:
        if not parts:
            raise ValueError("Then needs at least one solver.")
        for part in parts:
            if isinstance(part, list | tuple):
                raise ValueError(
                    "Then takes its solvers one by one, as in Then('deal', 'swap'); unpack a "
                    "list with Then(*solvers)."
                )
        object.__setattr__(self, "parts", tuple(get_solver(part) for part in parts))

    def supports(self, problem: Problem) -> str | None:
        """Say the first part's reason, if one has any."""
        return next((r for part in self.parts if (r := part.supports(problem))), None)

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return the last part's result, counted from the first part's start."""
        require(self, problem)
        result = self.parts[0].solve(problem, stop=stop, start=start, seed=seed)
        for part in self.parts[1:]:
            if result.status is Status.OPTIMAL:
                break
            rest = None if stop is None else Rest(stop, result)
            following = part.solve(problem, stop=rest, start=result.solution, seed=seed)
            result = joined(result, following, str(self))
        return replace(result, solver=str(self))


@dataclass(frozen=True, slots=True, init=False)
class Multistart:
    """Run a solver from several starts, in parallel, and return the best result.

    The first start is the given one, the others are random. A step budget is split evenly. A
    time budget is turned into steps by the first start, which gets its share of the time; the
    others are granted as many steps (four times as many where the first ended by itself before
    its share was used), and `steps` of the result counts what was granted, so that a run with
    that many steps repeats it. The result does not depend on the number of threads.

    Parameters
    ----------
    solver
        What to run: a short name or a solver value.
    starts
        Number of starts.
    threads
        Threads for the starts after the first.

    Raises
    ------
    ValueError
        `starts` or `threads` is no integer >= 1.
    UnknownName
        `solver` is neither a known name nor a solver.

    Examples
    --------
    >>> import permsearch as ps
    >>> weight = ps.instances.gaussian(8, 16, seed=0)
    >>> many = ps.search(weight, "2:4", solver=ps.Multistart("swap", 4))
    >>> many.score >= ps.search(weight, "2:4", solver="swap").score
    True
    """

    solver: Solver
    starts: int
    threads: int

    def __init__(self, solver: str | Solver, starts: int = 8, threads: int = 2) -> None:
        object.__setattr__(self, "solver", get_solver(solver))
        object.__setattr__(self, "starts", whole("starts", starts, 1))
        object.__setattr__(self, "threads", whole("threads", threads, 1))

    def supports(self, problem: Problem) -> str | None:
        """Say the solver's own reason, if any."""
        return self.solver.supports(problem)

    def solve(
        self,
        problem: Problem,
        *,
        stop: StoppingCriterion | None = None,
        start: Mapping[str, ArrayLike] | None = None,
        seed: int = 0,
    ) -> SearchResult:
        """Return the best of all starts; ties go to the earlier one."""
        require(self, problem)
        children = np.random.SeedSequence(seed).generate_state(self.starts, np.uint64) >> 1
        share = None if stop is None else Share(stop, self.starts)
        first = self.solver.solve(problem, stop=share, start=start, seed=int(children[0]))
        granted = self._granted(first, stop)

        def run(child: int) -> SearchResult:
            own: Solution = random_solution(problem, seed=child)
            return self.solver.solve(problem, stop=MaxSteps(granted), start=own, seed=child)

        with ThreadPoolExecutor(self.threads) as pool:
            others = list(pool.map(run, [int(child) for child in children[1:]]))
        best = max([first, *others], key=lambda result: result.score)
        return replace(
            best,
            baseline=first.baseline,
            steps=granted * self.starts,
            runtime=first.runtime + sum(result.runtime for result in others) / self.threads,
            cpu=first.cpu + sum(result.cpu for result in others) / self.threads,
            trace=(first.trace[0], best.trace[-1]),
            solver=str(self),
            seed=seed,
        )

    def _granted(self, first: SearchResult, stop: StoppingCriterion | None) -> int:
        """Return the steps that each further start may do."""
        limit = None if stop is None else stop.horizon.steps
        used_up = first.status is Status.STOPPED or getattr(self.solver, "scheduled", False)
        own = first.steps * (1 if used_up else 4)
        return own if limit is None else min(limit // self.starts, own)


@dataclass(frozen=True, slots=True)
class Share:
    """An even share of a criterion's horizon; what has no horizon applies in full."""

    whole: StoppingCriterion
    count: int

    @property
    def horizon(self) -> Horizon:
        """The share of each kind."""
        whole = self.whole.horizon
        return Horizon(
            None if whole.steps is None else whole.steps // self.count,
            None if whole.seconds is None else whole.seconds / self.count,
            None if whole.cpu is None else whole.cpu / self.count,
        )

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether the share is used up, or the whole criterion fires."""
        share = self.horizon
        used_up = (
            (share.steps is not None and progress.step >= share.steps)
            or (share.seconds is not None and progress.elapsed >= share.seconds)
            or (share.cpu is not None and progress.cpu >= share.cpu)
        )
        return used_up or self.whole(progress)
