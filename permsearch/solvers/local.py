"""Swap descent for every pattern and domain: slow, general, and the fallback of `auto`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.domains import Domain
from permsearch.orders import Order
from permsearch.patterns import NM
from permsearch.problem import Problem, Solution, Term
from permsearch.result import SearchResult, Status
from permsearch.solvers.run import Run
from permsearch.stop import MaxSteps, StoppingCriterion


@dataclass(frozen=True, slots=True)
class Local:
    """Swap pairs of units wherever that raises the value, until no single swap does.

    Works on any pattern and any domain, at the price of valuing each swap by itself; where a
    problem is plain N:M, `swap` does the same a thousand times faster. A step is one swap
    tried; the default is 100,000.

    Parameters
    ----------
    variables
        The variables to search; None: all that matter.
    """

    variables: tuple[str, ...] | None = None

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
        """Return a local optimum of single swaps, or the best so far when stopped."""
        run = Run.begin(problem, start, stop if stop is not None else MaxSteps(100_000))
        rng = np.random.default_rng(seed)
        solution = {name: order.copy() for name, order in run.start.items()}
        moves = _moves(problem, self.variables)
        ended = run.advance(0, 0.0) or not moves
        idle = 0
        while not ended and idle < len(moves):
            for index in rng.permutation(len(moves)):
                gain = _try_swap(problem, solution, *moves[index], least=1e-9 * run.baseline)
                idle = 0 if gain > 0 else idle + 1
                ended = run.advance(1, gain)
                if ended or idle >= len(moves):
                    break
        status = Status.CONVERGED if idle >= len(moves) else Status.STOPPED
        return run.result(self, solution, status, seed)


def _unit_pairs(domain: Domain) -> Iterator[tuple[int, int]]:
    """Yield the first positions of every two units that may trade places."""
    first = 0
    for length in domain.segments:
        units = range(first, first + length, domain.width)
        yield from ((p, q) for p in units for q in units if p < q)
        first += length


def _moves(problem: Problem, names: tuple[str, ...] | None) -> list[tuple[str, int, int]]:
    searched = [name for name in problem.sensitive if names is None or name in names]
    return [(name, p, q) for name in searched for p, q in _unit_pairs(problem.domains[name])]


def _try_swap(
    problem: Problem, solution: dict[str, Order], name: str, p: int, q: int, *, least: float
) -> float:
    """Swap two units if that gains more than `least`; return the gain, 0 when put back."""
    width = problem.domains[name].width
    touched = np.concatenate([np.arange(p, p + width), np.arange(q, q + width)])
    terms = list(problem.terms_on(name))
    before = sum(_value(term, solution, name, touched) for term in terms)
    order = solution[name]
    _exchange(order, p, q, width)
    gain = sum(_value(term, solution, name, touched) for term in terms) - before
    if gain > least:
        return gain
    _exchange(order, p, q, width)
    return 0.0


def _exchange(order: Order, p: int, q: int, width: int) -> None:
    kept = order[p : p + width].copy()
    order[p : p + width] = order[q : q + width]
    order[q : q + width] = kept


def _value(term: Term, solution: Solution, name: str, touched: NDArray[np.intp]) -> float:
    """Return the part of a term's value that the touched positions can change."""
    if not isinstance(term.pattern, NM) or term.cols != name:
        return term.retained(solution)
    m = term.pattern.m
    positions = (np.unique(touched // m)[:, None] * m + np.arange(m)).ravel()
    return term.pattern.retained(term.scores[:, solution[name][positions]])
