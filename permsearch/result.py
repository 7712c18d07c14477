"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from permsearch.errors import ProblemError
from permsearch.orders import Order, identity
from permsearch.patterns import Axis, Mask, zero_columns
from permsearch.problem import Problem, Solution, Term


class Status(Enum):
    """How a search ended.

    Attributes
    ----------
    OPTIMAL
        Proven: no legal order retains more.
    CONVERGED
        The order is a local optimum of the solver's own moves: none of them improves it, and the
        same call with more time returns the same. Another solver, seed or start may well find
        more, and so may `anneal` and `auto` with more time: their longer schedules end elsewhere.
    STOPPED
        The criterion or the end of the solver's schedule came first.
    """

    OPTIMAL = "optimal"  #: proven: no legal order retains more
    CONVERGED = "converged"  #: a local optimum of the solver's own neighbourhood
    STOPPED = "stopped"  #: a criterion or the solver's schedule ended it

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class TracePoint:
    """The best score at one moment of a run."""

    step: int
    elapsed: float
    cpu: float
    score: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SearchResult:
    """Orders, what they retain, and how good that provably is.

    Attributes
    ----------
    problem, solution
        What was searched, and the order of each variable.
    score, baseline
        Retained score of the solution and of the start, recomputed in float64 from the scores.
    bound, bound_kind
        No legal solution retains more than `bound`; the kind says which bound it is.
    ceiling
        What a mask with the pattern's freedom but without the permutation constraint would
        retain (for N:M, the largest N/M of each row): the 100 % of `efficacy`.
    total
        Sum of all scores, the 100 % of every share.
    status, steps, runtime, cpu
        How the run ended, the steps it did, wall-clock and CPU seconds.
    trace
        Every rise of the best score.
    solver, seed
        What was run.
    details
        Solver-specific extras: `padding` is the number of zero columns that `pad` appended, which
        `cols` names by the numbers from the weight's own column count on.
    """

    problem: Problem
    solution: Solution
    score: float
    baseline: float
    bound: float
    bound_kind: str
    ceiling: float
    total: float
    status: Status
    steps: int
    runtime: float
    cpu: float
    trace: tuple[TracePoint, ...]
    solver: str
    seed: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def share(self, value: float) -> float:
        """Return a score as a share of the total; 1 where all scores are zero."""
        return value / self.total if self.total > 0 else 1.0

    @property
    def retained(self) -> float:
        """Share of the total score that the best mask keeps under these orders."""
        return self.share(self.score)

    @property
    def gap(self) -> float:
        """(bound - score) / bound: 0 means proven optimal."""
        return max(0.0, self.bound - self.score) / self.bound if self.bound > 0 else 0.0

    @property
    def efficacy(self) -> float:
        """Share of the loss between the start and the ceiling that was won back.

        1 where the start already reaches the ceiling.
        """
        room = self.ceiling - self.baseline
        return (self.score - self.baseline) / room if room > 1e-12 * self.ceiling else 1.0

    @property
    def rows(self) -> Order:
        """Order of the rows of a single weight."""
        return self._axis("rows", 0)

    @property
    def cols(self) -> Order:
        """Order of the columns of a single weight: ``weight[:, r.cols]`` is what to store.

        Where `pad` added columns, append as many zero columns first, and zeros to the inputs:
        ``np.pad(weight, [(0, 0), (0, r.details["padding"])])[:, r.cols]``.
        """
        return self._axis("cols", 1)

    def _axis(self, axis: Axis, position: int) -> Order:
        term = self._single()
        variable = term.variable(axis)
        if variable is None:
            return identity(term.scores.shape[position])
        return self.solution[variable]

    def _single(self) -> Term:
        if len(self.problem.terms) != 1:
            raise ProblemError(
                f"the problem has {len(self.problem.terms)} terms; use result.solution and "
                "term.mask(result.solution) of the term you want."
            )
        return self.problem.terms[0]

    @property
    def mask(self) -> Mask:
        """Mask of a single weight in the layout it came in, true = kept."""
        mask = self._single().mask(self.solution)
        padding = int(self.details.get("padding", 0))
        return mask[:, : mask.shape[1] - padding] if padding else mask

    @property
    def permuted_mask(self) -> Mask:
        """Mask of a single weight in storage order, padding columns included."""
        return self._single().permuted_mask(self.solution)

    def __repr__(self) -> str:
        return f"<SearchResult {self}>"

    def __str__(self) -> str:
        padding = self.details.get("padding", 0)
        padded = f", {zero_columns(padding)} added" if padding else ""
        return (
            f"{self.solver}: retained {self.retained:.5f} (start {self.share(self.baseline):.5f}, "
            f"{self.bound_kind} bound {self.share(self.bound):.5f}), efficacy "
            f"{100 * self.efficacy:.1f} %, {self.status} after {self.steps} steps in "
            f"{self.runtime:.2f} s{padded}"
        )
