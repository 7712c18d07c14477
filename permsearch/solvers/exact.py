"""The proven optimum: set partitioning by column generation, then an integer program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from permsearch.checks import keep_whole
from permsearch.solvers.base import Budget, ColumnSolver, Step, column_obstacle
from permsearch.solvers.exhaustive import MAX_COLUMNS, Exhaustive
from permsearch.stack import pieces
from permsearch.stop import MaxSeconds, StoppingCriterion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from permsearch.certificates.partition import Limit
    from permsearch.certificates.pricing import Found
    from permsearch.problem import Problem
    from permsearch.solvers._proving import Answer
    from permsearch.stack import Stack

    I64 = NDArray[np.int64]

_DEFAULT_SECONDS = 60.0
_MOST_GROUPS = 100_000  # candidates beyond which no integer program is tried
_NODES = (1, 100, 2_000, 40_000, 800_000)  # of the integer program, one attempt after the other
_GROUPS_A_STEP, _NODES_A_STEP = 1000, 50  # an attempt counts as groups times nodes
_RUNS = 8  # of the annealing; a step takes about C ** 2.5 times the time of one column's
_STEPS, _STEPS_WITHIN = 1e9, (2_000, 30_000)
_UNPROVEN = 1e-9  # relative: a bound so close to the value proves it


@dataclass(frozen=True, slots=True)
class Exact(ColumnSolver):
    """Find the best order and prove it, or stop with the best order and the best bound so far.

    A short annealing from the start gives an incumbent. Column generation bounds what any order
    keeps. All groups that an order better than the incumbent could use are listed by one exact
    pricing, and an integer program over them finds the optimum or shows that there is none: HiGHS,
    or CP-SAT as a second, independent prover. Up to 16 columns are solved by dynamic programming.
    A step is the annealing, a pricing of all groups, or 50 nodes of the integer program for every
    thousand groups. Each attempt at it has a larger limit of nodes than the one before; one that
    does not fit into the steps is not begun, and one that the clock cuts is dropped.

    The status is ``optimal`` only with a proof. HiGHS proves up to its tolerance, 1e-6 of the
    largest reduced value (some 1e-9 of the score).

    Parameters
    ----------
    prover
        ``highs`` or ``cpsat``.
    anneal_steps
        Length of the annealing; None: the best of eight runs, which take about a second together.
        The closer the order is to the optimum, the fewer groups are left for the integer program.
    attempts
        How often the integer program is tried, at most; the later ones may take very long.
    most_groups
        Groups beyond which no integer program is tried.
    restricted
        Where there are more, the integer program chooses among so many of the best of them and
        the order known so far: it proves nothing, but may find a better order. 0: it is not tried.

    References
    ----------
    Barnhart, Johnson, Nemhauser, Savelsbergh, Vance: Branch-and-price: column generation for
    solving huge integer programs, Operations Research 46 (1998), for the column generation; the
    branching is left to the integer program.
    """

    prover: Literal["highs", "cpsat"] = "highs"
    anneal_steps: int | None = None
    attempts: int = len(_NODES)
    most_groups: int = _MOST_GROUPS
    restricted: int = 0

    def __post_init__(self) -> None:
        if self.prover not in {"highs", "cpsat"}:
            raise ValueError(f"unknown prover {self.prover!r}; choose 'highs' or 'cpsat'.")
        if self.anneal_steps is not None and self.anneal_steps < 0:
            raise ValueError(f"anneal_steps must be at least 0, got {self.anneal_steps}.")
        if not 1 <= self.attempts <= len(_NODES):
            raise ValueError(f"attempts must be 1 to {len(_NODES)}, got {self.attempts}.")
        keep_whole(self, "restricted", "restricted", 0)

    @property
    def default_stop(self) -> StoppingCriterion:
        """Stop after a minute."""
        return MaxSeconds(_DEFAULT_SECONDS)

    def supports(self, problem: Problem) -> str | None:
        """N:M problems whose groups of columns can all be priced."""
        from permsearch.certificates.partition import obstacle

        reason = column_obstacle(problem)
        if reason is not None:
            return reason
        for piece in pieces(problem):
            reason = obstacle(piece.stack)
            if len(piece.stack.columns) > MAX_COLUMNS and reason is not None:
                return f"{reason}; use solver 'auto'."
        return None

    def _run(
        self, stack: Stack, order: I64, rng: np.random.Generator, budget: Budget
    ) -> Iterator[Step]:
        if len(stack.columns) <= MAX_COLUMNS:
            yield from Exhaustive()._run(stack, order, rng, budget)  # noqa: SLF001
            return
        if not stack.columns.any():
            yield Step(1, order, optimal=True)
            return
        order = self._incumbent(stack, order, rng)
        yield Step(1, order)
        yield from _Proof(self, stack, order, budget).steps()

    def _incumbent(self, stack: Stack, order: I64, rng: np.random.Generator) -> I64:
        """Return the best order of the annealing, or of the matching for pairs."""
        from permsearch.domains import Free
        from permsearch.patterns import NM
        from permsearch.problem import Problem, Term
        from permsearch.solvers.registry import get_solver
        from permsearch.stop import MaxSteps

        term = Term(stack.columns.T, NM(stack.n, stack.m), cols="cols")
        problem = Problem({"cols": Free(len(order))}, (term,))
        solver = get_solver("matching" if stack.m == 2 else "anneal")
        steps = self.anneal_steps
        runs = 1 if steps is not None or stack.m == 2 else _RUNS
        if steps is None:
            steps = int(np.clip(_STEPS / len(order) ** 2.5, *_STEPS_WITHIN))
        seeds = [int(rng.integers(1 << 31)) for _ in range(runs)]
        found = [
            solver.solve(problem, stop=MaxSteps(steps), start={"cols": order}, seed=seed)
            for seed in seeds
        ]
        best = max(found, key=lambda result: result.score)
        return best.solution["cols"].astype(np.int64)


class _Proof:
    """One stack being proven: the best order so far, and the lowest limit."""

    def __init__(self, solver: Exact, stack: Stack, order: I64, budget: Budget) -> None:
        self.solver, self.stack, self.budget = solver, stack, budget
        self.order = order
        self.score = self._value(order)
        self.limit: Limit | None = None

    def steps(self) -> Iterator[Step]:
        """Yield a step after each pricing and each attempt."""
        from permsearch.certificates.partition import limits

        for limit in limits(self.stack, self.order, self._over):
            self.limit = limit
            yield self._step(limit.value, "partition")
            if self._closed(limit.value):
                return
        if self.limit is None or self._over():
            return
        listed = self._candidates(self.limit)
        if listed is None:
            return
        yield self._step(self.limit.value, "partition")
        found, complete = listed
        if complete:
            yield from self._attempts(found, self.limit)
        elif self.solver.restricted:
            yield from self._among_few(found, self.limit)

    def _among_few(self, found: Found, limit: Limit) -> Iterator[Step]:
        """Yield a step after the integer program over the best groups and the known order's."""
        from permsearch.solvers._proving import with_order

        few = with_order(self.stack, found, limit.duals, self.solver.restricted, self.order)
        nodes = _NODES[self.solver.attempts - 1]
        steps = max(1, len(few.values) // _GROUPS_A_STEP) * max(1, nodes // _NODES_A_STEP)
        if self.budget.steps is not None and self.budget.steps < steps:
            return
        answer = self._asked(few, limit, nodes)
        if answer.finished:
            self._take(answer.order)
            yield self._step(limit.value, "partition", steps=steps)

    def _take(self, order: I64 | None) -> None:
        """Keep an order that is better than the best so far."""
        if order is not None and (value := self._value(order)) > self.score:
            self.order, self.score = order, value

    def _attempts(self, found: Found, limit: Limit) -> Iterator[Step]:
        best = limit.value
        for nodes in _NODES[: self.solver.attempts]:
            steps = max(1, len(found.values) // _GROUPS_A_STEP) * max(1, nodes // _NODES_A_STEP)
            if self.budget.steps is not None and self.budget.steps < steps:
                return
            answer = self._asked(found, limit, nodes)
            best = min(best, max(answer.limit, self.score))
            if answer.finished:
                self._take(answer.order)
            if not answer.finished:  # what the clock cut cannot be repeated: only the bound counts
                yield self._step(best, "partition", steps=0)
                return
            yield self._step(best, "partition", optimal=answer.proven, steps=steps)
            if answer.proven or self._over():
                return

    def _asked(self, found: Found, limit: Limit, nodes: int) -> Answer:
        from permsearch.solvers._proving import by_cpsat, by_highs

        seconds = self.budget.seconds
        if self.solver.prover == "cpsat":
            return by_cpsat(found, limit.duals, seconds=seconds)
        return by_highs(found, limit.duals, nodes=nodes, seconds=seconds)

    def _candidates(self, limit: Limit) -> tuple[Found, bool] | None:
        """Return groups that an order better than the incumbent may use, and whether all of them.

        None where the time was too short.
        """
        from permsearch.certificates.pricing import Pricer

        # one group of such an order may take the incumbent's whole distance from the limit
        least = limit.level - (limit.value - self.score) - 1e-12 * abs(limit.value)
        priced = Pricer(self.stack).above(limit.duals, least, halted=self._over)
        if priced is None:
            return None
        few = len(priced[0].values) <= self.solver.most_groups
        return priced[0], few and priced[1] <= least

    def _over(self) -> bool:
        return self.budget.seconds == 0.0

    def _closed(self, limit: float) -> bool:
        return limit <= self.score * (1 + _UNPROVEN)

    def _step(self, limit: float, kind: str, *, optimal: bool = False, steps: int = 1) -> Step:
        done = optimal or self._closed(limit)
        return Step(steps, self.order, optimal=done, limit=(limit, kind))

    def _value(self, order: I64) -> float:
        return self.stack.total(order) / self.stack.scale
