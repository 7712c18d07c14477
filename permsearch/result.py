"""What a search returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from permsearch.errors import ProblemError
from permsearch.orders import Order, identity
from permsearch.patterns import Axis, Mask, counted
from permsearch.problem import Problem, Solution, Term, TileOrders

# Keys of `details`: how many zero rows and zero columns were appended to a single weight.
PADDING = ("row_padding", "padding")
# Kinds of bounds that are usually close to what can be reached.
TIGHT = frozenset({"exact", "matching", "partition", "price"})


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
        The criterion or the end of the solver's schedule came first; the solver `none`, which does
        nothing, always ends so.
    """

    OPTIMAL = "optimal"  #: proven: no legal order retains more
    CONVERGED = "converged"  #: a local optimum of the solver's own neighbourhood
    STOPPED = "stopped"  #: a criterion or the solver's schedule ended it

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class TracePoint:
    """The best score at one moment of a run.

    Attributes
    ----------
    step
        Steps done until then.
    elapsed, cpu
        Wall-clock seconds, and CPU seconds of the process, since the run began.
    score
        The best retained score, in the problem's units, as the solver counts it: `SearchResult`
        recomputes the last one.
    """

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
    bound_slack
        How much of the bound is room for rounding: see `permsearch.Bound`.
    ceiling
        What a mask with the pattern's freedom but without the group constraint would retain
        (for N:M, the largest N/M of each row): the 100 % of `efficacy`.
    total
        Sum of all scores, the 100 % of every share.
    status, steps, runtime, cpu
        How the run ended, the steps it did, wall-clock and CPU seconds.
    trace
        Every rise of the best score.
    solver, seed
        What was run.
    details
        Extras. `padding` and `row_padding` are the numbers of zero columns and rows that `pad`
        appended; the orders name them by the numbers from the weight's own counts on. `tiles`
        holds the orders that a pattern's tiles keep for themselves, by the term's position; `note`
        says that no published kernel takes the pattern's V. `methods` are the short names of the
        solvers that `auto` chose, in the order they ran.
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
    bound_slack: float = 0.0

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
    def certified(self) -> float | None:
        """Share of the possible gain that is proven to be taken; None without a tight bound.

        (score - baseline) / (bound - baseline); 1 where no gain is possible.
        """
        if self.bound_kind not in TIGHT:
            return None
        room = self.bound - self.baseline
        return (self.score - self.baseline) / room if room > 1e-12 * self.bound else 1.0

    @property
    def efficacy(self) -> float:
        """Share of the loss between the start and the ceiling that was won back.

        1 where the start already reaches the ceiling.
        """
        room = self.ceiling - self.baseline
        return (self.score - self.baseline) / room if room > 1e-12 * self.ceiling else 1.0

    @property
    def rows(self) -> Order:
        """Order of the rows of a single weight, shape (out,); else ProblemError."""
        return self._axis("rows", 0)

    @property
    def cols(self) -> Order:
        """Order of the columns of a single weight: ``weight[:, r.cols]`` is what to store.

        An integer array (in,); ProblemError where the problem has several terms.
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
        """Boolean mask of a single weight in the layout and shape it came in, true = kept."""
        mask = self._single().mask(self.solution, self.tiles.get(0))
        rows, cols = (int(self.details.get(key, 0)) for key in PADDING)
        return mask[: mask.shape[0] - rows, : mask.shape[1] - cols] if rows or cols else mask

    @property
    def permuted_mask(self) -> Mask:
        """Mask of a single weight in storage order, padding included."""
        return self._single().permuted_mask(self.solution, self.tiles.get(0))

    @property
    def tiles(self) -> TileOrders:
        """Orders that the tiles of a pattern such as HiNM keep for themselves, by term.

        For each term that has any its position in the problem and an integer array (tiles, kept):
        the columns, counted in storage order, that a tile keeps, as they stand in its groups.
        """
        tiles: TileOrders = self.details.get("tiles", {})
        return tiles

    def __repr__(self) -> str:
        return f"<SearchResult {self}>"

    def __str__(self) -> str:
        added = zip(PADDING, ("row", "column"), strict=True)
        zeros = [counted(n, axis) for key, axis in added if (n := self.details.get(key, 0))]
        padded = f", {' and '.join(zeros)} added" if zeros else ""
        chosen = self.details.get("methods", ())
        by = f" by {', '.join(chosen)}" if chosen else ""
        return (
            f"{self.solver}{by}: retained {self.retained:.5f} "
            f"(start {self.share(self.baseline):.5f}, {self.bound_kind} bound "
            f"{self.share(self.bound):.5f}), efficacy "
            f"{100 * self.efficacy:.1f} %, {self.status} after {self.steps} steps in "
            f"{self.runtime:.2f} s{padded}"
        )
