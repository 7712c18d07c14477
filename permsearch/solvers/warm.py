"""Compiling before the clock starts: a tiny run that reaches every kernel of the real one.

numba compiles a kernel, or loads it from its cache, when it is first called. A run limited in
time would pay for that with its steps, so `permsearch.solve` does a tiny run first. Nothing is
remembered here: once numba has the kernels, the tiny run is a matter of a millisecond or two.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Timer

import numpy as np

from permsearch.domains import Free
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from permsearch.solvers.anneal import Anneal, prefers_swaps
from permsearch.solvers.auto import Auto, method_for, weights
from permsearch.solvers.base import ColumnSolver, Solver
from permsearch.solvers.compose import Multistart, Then
from permsearch.solvers.matrices import MatrixSolver, tiny_problem
from permsearch.solvers.registry import get_solver
from permsearch.solvers.swap import Swap, polish
from permsearch.solvers.window import Window
from permsearch.stack import obstacle
from permsearch.stop import MaxSteps, StoppingCriterion

# What kernels are chosen by: eight-bit screening begins at 64 columns, annealing of whole
# assignments at 8 groups under 16 wide. A tiny problem is on the same side of each.
_COLUMNS, _GROUPS, _WIDE, _ROWS = 64, 8, 16, 12
_STEPS = 200  # enough for most solvers without a schedule to converge on a tiny problem
_FEW_STEPS = 4  # those whose last kernels are called by name below need no more
_PATIENCE = 3.0  # seconds after which people wonder
_COMPILING = "compiling the loops of %s for %s: a minute or two at most, once on a machine"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A stack as far as the choice of kernels goes."""

    columns: int
    rows: int
    n: int
    m: int

    def tiny(self, solver: ColumnSolver) -> _Shape:
        """Return a tiny shape on which a solver uses the same kernels."""
        groups = max(_GROUPS if self.m < _WIDE else 2, -(-_COLUMNS // self.m))
        if isinstance(solver, Window):  # any number of groups will do, and each set is dear
            groups = max(2, solver.columns // self.m)
        columns = min(self.columns, groups * self.m)
        return _Shape(columns, min(self.rows, _ROWS), self.n, self.m)

    def problem(self) -> Problem:
        """Return a problem of one such stack."""
        scores = np.random.default_rng(0).random((self.rows, self.columns), np.float32)
        term = Term(scores, NM(self.n, self.m), cols="cols")
        return Problem({"cols": Free(self.columns)}, (term,))


def limited_in_time(stop: StoppingCriterion | None) -> bool:
    """Whether a criterion counts seconds that a schedule may be fitted to."""
    return stop is not None and not (stop.horizon.seconds is None and stop.horizon.cpu is None)


def warm_up(solver: Solver, problem: Problem) -> None:
    """Compile or load the kernels that a solver needs for a problem.

    Solvers that are no `ColumnSolver` or `MatrixSolver` are left alone, apart from `Then` and
    `Multistart`, whose parts are warmed up. A warning is logged where it takes a while.
    """
    with _long_is_told(solver, problem):
        _prepare(solver, problem)


@contextmanager
def _long_is_told(solver: Solver, problem: Problem) -> Iterator[None]:
    """Log a line, from a thread of its own, once the block has taken some seconds."""
    patterns = ", ".join(dict.fromkeys(str(term.pattern) for term in problem.terms))
    timer = Timer(_PATIENCE, _log.warning, (_COMPILING, solver, patterns))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _prepare(solver: Solver, problem: Problem) -> None:
    done: list[tuple[ColumnSolver, _Shape]] = []
    for part in _parts(solver):
        _warm_up_weights(part, problem)
        if isinstance(part, MatrixSolver):
            continue
        for shape in _shapes(problem):
            method = method_for(shape.columns, shape.m) if isinstance(part, Auto) else part
            if isinstance(method, Anneal) and method.method == "auto":
                swaps = prefers_swaps(shape.columns, shape.rows, shape.m)
                method = replace(method, method="swap" if swaps else "assignment")
            tiny = shape.tiny(method)
            if (method, tiny) not in done:
                done.append((method, tiny))
                _warm_up(method, tiny.problem())


def _warm_up(solver: ColumnSolver, problem: Problem) -> None:
    if solver.supports(problem) is not None:
        return
    descends = isinstance(solver, Swap | Window | Anneal)
    solver.solve(problem, stop=MaxSteps(_FEW_STEPS if descends else _STEPS))
    if descends:
        _descend(problem)


def _warm_up_weights(solver: Solver, problem: Problem) -> None:
    """Run the solvers of patterns that are not N:M on a tiny weight of each."""
    if isinstance(solver, Auto):
        chosen = {get_solver(name): terms for name, terms in weights(problem).items()}
    else:
        chosen = {solver: list(range(len(problem.terms)))}
    for method, terms in chosen.items():
        if not isinstance(method, MatrixSolver):
            continue
        tiny = {str(small.terms[0].pattern): small for small in _tiny(problem, terms)}
        for small in tiny.values():
            if method.supports(small) is None:
                method.solve(small, stop=MaxSteps(method.warm_steps))


def _tiny(problem: Problem, terms: list[int]) -> Iterator[Problem]:
    for index in terms:
        if index in problem.searched:
            yield tiny_problem(problem, problem.terms[index])


def _descend(problem: Problem) -> None:
    """Call the kernels of a descent: which of them a short run reaches depends on luck."""
    from permsearch.kernels.swap import improving_pairs
    from permsearch.kernels.value import group_value, retained

    (term,) = problem.terms
    assert isinstance(term.pattern, NM)
    n, m = term.pattern.n, term.pattern.m
    columns = np.array(term.scores.T[: 2 * m], order="C")  # writable, as kernels know columns
    order = polish(columns, np.arange(2 * m), n, m)
    retained(columns, order, n, m)
    group_value(columns, order[:m], n)
    improving_pairs(np.zeros((2, 2), np.float32), np.zeros(2, np.float32), 1.0)


def _parts(solver: Solver) -> Iterator[ColumnSolver | MatrixSolver]:
    """Yield the solvers that a solver is made of."""
    if isinstance(solver, ColumnSolver | MatrixSolver):
        yield solver
    elif isinstance(solver, Then):
        for part in solver.parts:
            yield from _parts(part)
    elif isinstance(solver, Multistart):
        yield from _parts(solver.solver)


def _shapes(problem: Problem) -> Iterator[_Shape]:
    """Yield the shapes of the problem's stacks, each once."""
    found: dict[_Shape, None] = {}
    for variable in problem.sensitive:
        if obstacle(problem, variable) is not None:
            continue
        terms = list(problem.terms_on(variable))
        pattern = terms[0].pattern
        assert isinstance(pattern, NM)
        rows = sum(term.scores.size // term.scores.shape[1] for term in terms)
        for columns in problem.domains[variable].segments:
            if columns > pattern.m:
                found[_Shape(columns, rows, pattern.n, pattern.m)] = None
    yield from found
