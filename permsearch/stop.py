"""When to stop: pure predicates over progress, and the horizon they state.

A criterion holds no clock and no counter, so one value serves any number of runs. Solvers that
need a schedule (`anneal`, `auto`) ask for its `horizon`: how many steps or seconds may be
counted on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands.

    Attributes
    ----------
    step
        Steps done; what a step is stands in each solver's docstring.
    elapsed
        Wall-clock seconds since the run began.
    cpu
        CPU seconds of the whole process since the run began.
    best
        Best retained score so far, in the problem's units.
    since_best
        Steps since the best score last rose.
    """

    step: int
    elapsed: float
    cpu: float
    best: float
    since_best: int


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far a run may go at most; None where nothing is known.

    Attributes
    ----------
    steps
        Of the solver.
    seconds, cpu
        Wall-clock seconds, and CPU seconds of the whole process.
    """

    steps: int | None = None
    seconds: float | None = None
    cpu: float | None = None


@runtime_checkable
class StoppingCriterion(Protocol):
    """Decides after each sweep (some milliseconds of work) whether a run ends.

    Any value with these two will do, such as those of this module; it must hold no state, so
    that it serves any number of runs.
    """

    @property
    def horizon(self) -> Horizon:
        """What a schedule may count on."""

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""


def _check_steps(value: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (whole and value >= 0):
        raise ValueError(f"steps must be an integer >= 0, got {value!r}.")


def _check_seconds(value: float) -> None:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and 0 <= value < math.inf):
        raise ValueError(f"seconds must be a finite number >= 0, got {value!r}.")


def check_criterion(stop: object) -> None:
    """Raise ValueError unless `stop` is a stopping criterion."""
    if isinstance(stop, type) or not isinstance(stop, StoppingCriterion):
        raise ValueError(
            f"a stopping criterion such as MaxSteps(1000) or MaxSeconds(5) is needed, got {stop!r}."
        )


def _check_criteria(kind: str, criteria: tuple[StoppingCriterion, ...]) -> None:
    if not criteria:
        raise ValueError(f"{kind} needs at least one criterion.")
    for criterion in criteria:
        check_criterion(criterion)


@dataclass(frozen=True, slots=True)
class MaxSteps:
    """Stop after a number of steps: the same problem, seed and steps give the same orders.

    Parameters
    ----------
    steps
        An integer >= 0, else ValueError. What a step is stands in each solver's docstring; steps
        of different solvers are different amounts of work.
    """

    steps: int

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    @property
    def horizon(self) -> Horizon:
        """The steps."""
        return Horizon(steps=self.steps)

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return progress.step >= self.steps


@dataclass(frozen=True, slots=True)
class MaxSeconds:
    """Stop after wall-clock seconds. A schedule that was fitted to them is finished first.

    Parameters
    ----------
    seconds
        Finite and >= 0, else ValueError. Compiling on a machine's first call does not count.
    """

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)

    @property
    def horizon(self) -> Horizon:
        """The seconds."""
        return Horizon(seconds=self.seconds)

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return progress.elapsed >= self.seconds


@dataclass(frozen=True, slots=True)
class MaxCpuSeconds:
    """Stop after CPU seconds of the process: the fair budget on a machine that is shared.

    Parameters
    ----------
    seconds
        Finite and >= 0, else ValueError; two busy threads use two in a second.
    """

    seconds: float

    def __post_init__(self) -> None:
        _check_seconds(self.seconds)

    @property
    def horizon(self) -> Horizon:
        """The CPU seconds."""
        return Horizon(cpu=self.seconds)

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return progress.cpu >= self.seconds


@dataclass(frozen=True, slots=True)
class NoImprovement:
    """Stop after a number of steps in which the best score did not rise.

    Parameters
    ----------
    steps
        An integer >= 0, else ValueError.
    """

    steps: int

    def __post_init__(self) -> None:
        _check_steps(self.steps)

    @property
    def horizon(self) -> Horizon:
        """Unknown."""
        return Horizon()

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return progress.since_best >= self.steps


@dataclass(frozen=True, slots=True)
class ReachedScore:
    """Stop once the retained score is at least `score`.

    Parameters
    ----------
    score
        In the problem's units, those of `SearchResult.score`; NaN raises ValueError.
    """

    score: float

    def __post_init__(self) -> None:
        if not isinstance(self.score, int | float | np.integer | np.floating) or (
            math.isnan(self.score)
        ):
            raise ValueError(f"score must be a number, got {self.score!r}.")

    @property
    def horizon(self) -> Horizon:
        """Unknown."""
        return Horizon()

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return progress.best >= self.score


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """Stop as soon as one of the criteria says so.

    Parameters
    ----------
    *criteria
        One or more, else ValueError.

    Examples
    --------
    >>> stop = AnyOf(MaxSeconds(60), NoImprovement(1000))
    >>> stop.horizon
    Horizon(steps=None, seconds=60, cpu=None)
    """

    criteria: tuple[StoppingCriterion, ...]

    def __init__(self, *criteria: StoppingCriterion) -> None:
        _check_criteria("AnyOf", criteria)
        object.__setattr__(self, "criteria", criteria)

    @property
    def horizon(self) -> Horizon:
        """The nearest of each kind."""
        parts = [criterion.horizon for criterion in self.criteria]
        return Horizon(
            min((p.steps for p in parts if p.steps is not None), default=None),
            min((p.seconds for p in parts if p.seconds is not None), default=None),
            min((p.cpu for p in parts if p.cpu is not None), default=None),
        )

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return any(criterion(progress) for criterion in self.criteria)


@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """Stop once every criterion says so.

    Parameters
    ----------
    *criteria
        One or more, else ValueError.
    """

    criteria: tuple[StoppingCriterion, ...]

    def __init__(self, *criteria: StoppingCriterion) -> None:
        _check_criteria("AllOf", criteria)
        object.__setattr__(self, "criteria", criteria)

    @property
    def horizon(self) -> Horizon:
        """The farthest of a kind that every criterion states; unknown otherwise."""
        parts = [criterion.horizon for criterion in self.criteria]
        steps = [p.steps for p in parts if p.steps is not None]
        seconds = [p.seconds for p in parts if p.seconds is not None]
        cpu = [p.cpu for p in parts if p.cpu is not None]
        count = len(parts)
        return Horizon(
            max(steps) if len(steps) == count else None,
            max(seconds) if len(seconds) == count else None,
            max(cpu) if len(cpu) == count else None,
        )

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        return all(criterion(progress) for criterion in self.criteria)


@dataclass(frozen=True, slots=True)
class Never:
    """Run until the solver itself is done."""

    @property
    def horizon(self) -> Horizon:
        """Unknown."""
        return Horizon()

    def __call__(self, progress: Progress, /) -> bool:
        """Decide whether to stop."""
        del progress
        return False
