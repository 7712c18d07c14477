"""No search: the start, valued and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from permsearch.problem import Problem
from permsearch.result import SearchResult, Status
from permsearch.solvers.run import Run
from permsearch.stop import Never, StoppingCriterion


@dataclass(frozen=True, slots=True)
class NoSearch:
    """Return the start as it is: what masks alone retain."""

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
        """Return the start; it does no steps."""
        run = Run.begin(problem, start, stop if stop is not None else Never())
        return run.result(self, run.start, Status.STOPPED, seed)
