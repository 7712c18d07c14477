"""Random orders: the control that every method has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from permsearch.domains import sample
from permsearch.problem import Problem
from permsearch.result import SearchResult, Status
from permsearch.solvers.run import Run
from permsearch.stop import MaxSteps, StoppingCriterion


@dataclass(frozen=True, slots=True)
class RandomOrders:
    """Draw legal orders uniformly and keep the best. A step is one order; the default is 100."""

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
        """Return the best of the start and the orders drawn."""
        run = Run.begin(problem, start, stop if stop is not None else MaxSteps(100))
        rng = np.random.default_rng(seed)
        best = run.start
        ended = run.advance(0, 0.0)
        while problem.sensitive and not ended:
            drawn = dict(run.start)
            for name in problem.sensitive:
                drawn[name] = sample(problem.domains[name], rng)
            gain = sum(term.retained(drawn) for term in problem.terms) - run.best
            if gain > 0:
                best = drawn
            ended = run.advance(1, gain)
        return run.result(self, best, Status.STOPPED, seed)
