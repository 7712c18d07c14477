"""The problem: variables with domains, and the terms that score their orders.

A single matrix, a joint search of rows and columns, and a whole network are the same type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.arrays import frozen_scores
from permsearch.domains import Domain, contains, is_fixed, sample, size_of
from permsearch.errors import OrderError, PatternError, ProblemError, unknown
from permsearch.orders import Order, as_order, identity
from permsearch.patterns import Axis, Mask, Pattern, Private, Scores, parse_pattern

_SHOWN = 12  # variables, and terms, that a printed problem names

Solution: TypeAlias = Mapping[str, Order]
TileOrders: TypeAlias = Mapping[int, NDArray[np.int64]]
"""Orders that the tiles of a pattern keep for themselves, by position of the term."""


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Term:
    """Scores of one weight, the pattern it is to carry, and what may reorder it.

    Parameters
    ----------
    scores
        Shape (out, in, *k), finite and >= 0 (`permsearch.magnitude` makes them of a weight);
        the term keeps a read-only copy.
    pattern
        The sparsity pattern, a value or its text such as ``"2:4"``.
    rows, cols
        Name of the variable that orders axis 0 and axis 1; None where nothing does.
    name
        How errors and reports call the weight.

    Raises
    ------
    ScoresError, PatternError
        As in `permsearch.search`.
    ProblemError
        When `rows` or `cols` is no name.

    Examples
    --------
    >>> term = Term([[1.0, 4.0, 3.0, 2.0]], "1:2", cols="channels", name="fc")
    >>> term.retained({"channels": [0, 2, 1, 3]})
    7.0
    """

    scores: Scores
    pattern: Pattern
    rows: str | None
    cols: str | None
    name: str

    def __init__(
        self,
        scores: Any,
        pattern: str | Pattern,
        rows: str | None = None,
        cols: str | None = None,
        name: str = "",
    ) -> None:
        checked = frozen_scores(scores, name)
        parsed = parse_pattern(pattern)
        for axis, variable in (("rows", rows), ("cols", cols)):
            if not (variable is None or isinstance(variable, str)):
                raise ProblemError(
                    f"{axis} of a term is the name of a variable or None, got {variable!r}; its "
                    "domain, or an order to start from, belongs to the problem."
                )
        try:
            parsed.check(checked.shape)
        except PatternError as error:
            raise PatternError(f"{name}: {error}" if name else str(error)) from None
        for field, value in zip(self.__slots__, (checked, parsed, rows, cols, name), strict=True):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.scores.shape))
        axes = (("rows", self.rows), ("cols", self.cols))
        names = [f", {axis}={name!r}" for axis, name in axes if name is not None]
        return f"<Term {self.name!r}: {self.pattern} on {size}{''.join(names)}>"

    def variable(self, axis: Axis) -> str | None:
        """Return the name of the variable on an axis."""
        return self.rows if axis == "rows" else self.cols

    @property
    def sensitive(self) -> frozenset[str]:
        """Variables whose order changes this term's value."""
        names = (self.variable(axis) for axis in self.pattern.axes)
        return frozenset(name for name in names if name is not None)

    def permuted(self, solution: Solution) -> Scores:
        """Return the scores in storage order."""
        scores = self.scores
        if self.rows is not None and self.rows in solution:
            scores = scores[solution[self.rows]]
        if self.cols is not None and self.cols in solution:
            scores = scores[:, solution[self.cols]]
        return scores

    def retained(self, solution: Solution, tiles: NDArray[np.int64] | None = None) -> float:
        """Return the score that the best mask keeps under these orders, in float64.

        `tiles` are the orders that the pattern's tiles keep for themselves, where it has any; None
        leaves them to the pattern.
        """
        scores = self.permuted(solution)
        if tiles is not None and isinstance(self.pattern, Private):
            return self.pattern.retained(scores, tiles)
        return self.pattern.retained(scores)

    def permuted_mask(self, solution: Solution, tiles: NDArray[np.int64] | None = None) -> Mask:
        """Return the best mask in storage order: what the hardware needs."""
        scores = self.permuted(solution)
        if tiles is not None and isinstance(self.pattern, Private):
            return self.pattern.keep(scores, tiles)
        return self.pattern.keep(scores)

    def mask(self, solution: Solution, tiles: NDArray[np.int64] | None = None) -> Mask:
        """Return the best mask in the layout of the weight: what training needs."""
        stored = self.permuted_mask(solution, tiles)
        mask = np.empty_like(stored)
        rows, cols = (_order(solution, name, size) for name, size in self._axes())
        mask[rows[:, None], cols[None, :]] = stored
        return mask

    def _axes(self) -> Iterator[tuple[str | None, int]]:
        return zip((self.rows, self.cols), self.scores.shape[:2], strict=True)


def _order(solution: Solution, name: str | None, size: int) -> Order:
    return identity(size) if name is None or name not in solution else solution[name]


def _items(domain: Domain) -> str:
    runs = len(domain.segments)
    return f"{size_of(domain)} items{f' in {runs} segments' if runs > 1 else ''}"


def _some(lines: list[str]) -> list[str]:
    """Return what fits half a page of lines, and how many there are besides."""
    more = len(lines) - _SHOWN
    return lines if more <= 1 else [*lines[:_SHOWN], f"  ... and {more} more"]


def _check_domain(name: str, domain: object) -> None:
    if isinstance(domain, type) or not isinstance(domain, Domain):
        raise ProblemError(
            f"variable {name!r} has the domain {domain!r}; one such as Free(size) is needed."
        )
    if any(length % domain.width for length in domain.segments):
        raise ProblemError(
            f"variable {name!r}: units of {domain.width} do not fill the segments of {domain}."
        )


def _terms(given: object) -> tuple[Term, ...]:
    """Return terms as a tuple, or tell what stands in their place."""
    if isinstance(given, Term):
        raise ProblemError("terms are a tuple, of one as well: Problem(domains, (term,)).")
    terms = tuple(given) if isinstance(given, Iterable) else (given,)
    for term in terms:
        if not isinstance(term, Term):
            raise ProblemError(f"terms are a tuple of Term values; it holds {term!r}.")
    return terms


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Variables and the terms that score them; the value is the sum of retained scores.

    Parameters
    ----------
    domains
        The domain of each variable, by name.
    terms
        Each names variables of `domains` of the right size; without any, all orders are worth 0.

    Raises
    ------
    ProblemError
        When there is neither, a domain's units do not fill its segments, or a term names a
        variable of another size.
    UnknownName
        When a term names a variable that has no domain.

    Examples
    --------
    Two layers that read the same channels have one order in common:

    >>> import permsearch as ps
    >>> query, key = (ps.instances.gaussian(8, 16, seed=seed) for seed in (0, 1))
    >>> terms = [ps.Term(ps.magnitude(w), "2:4", cols="channels") for w in (query, key)]
    >>> result = ps.solve(ps.Problem({"channels": ps.Free(16)}, tuple(terms)), "swap")
    >>> sorted(result.solution), result.score > result.baseline
    (['channels'], True)
    """

    domains: Mapping[str, Domain]
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.domains, Mapping):
            raise ProblemError(f"domains map names of variables to domains, got {self.domains!r}.")
        object.__setattr__(self, "domains", MappingProxyType(dict(self.domains)))
        object.__setattr__(self, "terms", _terms(self.terms))
        if not self.terms and not self.domains:
            raise ProblemError("a problem needs at least one term or variable.")
        for name, domain in self.domains.items():
            _check_domain(name, domain)
        for position, term in enumerate(self.terms):
            self._check_term(term, term.name or f"term {position}")

    def __repr__(self) -> str:
        patterns = ", ".join(dict.fromkeys(str(term.pattern) for term in self.terms))
        told = f" of {patterns}" if patterns else ""
        return f"<Problem: {len(self.terms)} terms{told} on {len(self.domains)} variables>"

    def __str__(self) -> str:
        """Return a page at most: variables with the number of their items, and terms."""
        no_use = ", which no term depends on"
        wanted = frozenset[str]().union(*(term.sensitive for term in self.terms))
        variables = [
            f"  {name}: {_items(domain)}{'' if name in wanted else no_use}"
            for name, domain in self.domains.items()
        ]
        terms = [f"  {str(term)[1:-1]}" for term in self.terms]
        return "\n".join([repr(self)[1:-1], *_some(variables), *_some(terms)])

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (dict(self.domains), self.terms)

    def _check_term(self, term: Term, name: str) -> None:
        for axis, variable in enumerate((term.rows, term.cols)):
            if variable is None:
                continue
            if variable not in self.domains:
                raise unknown(f"variable of {name}", variable, self.domains)
            size = size_of(self.domains[variable])
            if size != term.scores.shape[axis]:
                raise ProblemError(
                    f"{name} has {term.scores.shape[axis]} entries on axis {axis}, but its "
                    f"variable {variable!r} orders {size} items."
                )

    @property
    def total(self) -> float:
        """Sum of all scores: what a mask that keeps everything retains."""
        return sum(float(term.scores.sum(dtype=np.float64)) for term in self.terms)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Variables worth searching: not fixed, and some term's value depends on them."""
        wanted = frozenset[str]().union(*(term.sensitive for term in self.terms))
        free = (name for name, domain in self.domains.items() if not is_fixed(domain))
        return tuple(name for name in free if name in wanted)

    @property
    def searched(self) -> tuple[int, ...]:
        """Positions of the terms whose value some order changes, the tiles' own included."""
        names = set(self.sensitive)
        return tuple(
            index
            for index, term in enumerate(self.terms)
            if term.sensitive & names or isinstance(term.pattern, Private)
        )

    def terms_on(self, variable: str) -> Iterator[Term]:
        """Yield the terms whose value depends on the order of a variable."""
        return (term for term in self.terms if variable in term.sensitive)

    def identity(self) -> Solution:
        """Return the solution that moves nothing."""
        return {name: identity(size_of(domain)) for name, domain in self.domains.items()}

    def complete(self, solution: Mapping[str, ArrayLike] | None) -> Solution:
        """Return a checked copy of a (partial) solution; missing variables stay in place.

        Raises
        ------
        OrderError
            When an order is malformed or its domain does not allow it.
        """
        orders = dict(self.identity())
        if solution is not None and not isinstance(solution, Mapping):
            raise OrderError(
                f"orders are a mapping from variable to order ({', '.join(self.domains)}), got a "
                f"{type(solution).__name__}."
            )
        for name, order in (solution or {}).items():
            if name not in self.domains:
                raise unknown("variable", name, self.domains)
            domain = self.domains[name]
            orders[name] = as_order(order, size_of(domain), f"the order of {name!r}")
            if not contains(domain, orders[name]):
                raise OrderError(f"the order of {name!r} is not one that {domain} allows.")
        return orders

    def evaluate(self, solution: Mapping[str, ArrayLike], tiles: TileOrders | None = None) -> float:
        """Return the retained score of a solution, summed in float64.

        `tiles` are the tiles' own orders of those terms that have any.
        """
        orders = self.complete(solution)
        own = tiles or {}
        return sum(term.retained(orders, own.get(i)) for i, term in enumerate(self.terms))


def checked_seed(seed: int) -> int:
    """Return a seed as a plain integer.

    Raises
    ------
    ValueError
        When it is no integer >= 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, got {seed!r}.")
    return int(seed)


def random_solution(problem: Problem, *, seed: int = 0) -> Solution:
    """Return a legal order of every variable, drawn uniformly.

    Raises
    ------
    ProblemError
        When `problem` is none.
    ValueError
        When `seed` is no integer >= 0.

    Examples
    --------
    >>> import numpy as np, permsearch as ps
    >>> problem = ps.single(np.ones((2, 8)), "2:4")
    >>> sorted(ps.random_solution(problem, seed=1)["cols"].tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    check_problem(problem, "random_solution", "random_solution(single(weight, '2:4'))")
    rng = np.random.default_rng(checked_seed(seed))
    return {name: sample(domain, rng) for name, domain in problem.domains.items()}


def check_problem(problem: object, call: str, instead: str) -> None:
    """Raise ProblemError unless a problem came in; `instead` is what serves a single weight."""
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"{call} takes a Problem, got a {type(problem).__name__}; for one weight use {instead}."
        )
