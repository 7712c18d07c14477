"""What a layer may become: patterns, what each keeps of its score, and what each costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from permsearch.checks import is_number
from permsearch.errors import PatternError, ProblemError, unknown
from permsearch.patterns import Pattern, parse_pattern
from permsearch.problem import Term
from permsearch.storage import stored_bits

Cost: TypeAlias = Callable[[Pattern | None, tuple[int, ...]], float]


@dataclass(frozen=True, slots=True)
class Option:
    """One way to store a layer.

    Parameters
    ----------
    pattern
        The pattern of its mask; None leaves the layer dense.
    value
        What it is worth, finite; values of layers are added up.
    costs
        What it takes of each budget, by the budget's name, finite and >= 0.
    """

    pattern: Pattern | None
    value: float
    costs: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_number(self.value) or not math.isfinite(self.value):
            raise ProblemError(f"the value of {self} must be a finite number.")
        for name, cost in self.costs.items():
            if not is_number(cost) or not 0 <= cost < math.inf:
                raise ProblemError(f"the cost {name!r} of {self} must be a finite number >= 0.")
        object.__setattr__(self, "costs", MappingProxyType(dict(self.costs)))

    def __str__(self) -> str:
        return "dense" if self.pattern is None else str(self.pattern)


def layer_options(
    terms: Iterable[Term],
    patterns: Sequence[str | Pattern],
    *,
    weights: Mapping[str, float] | None = None,
    value_bits: int = 16,
    costs: Mapping[str, Cost] | None = None,
) -> dict[str, tuple[Option, ...]]:
    """Return the options of every layer: dense, and each pattern that its shape takes.

    The value of an option is the share of the layer's total score that its best mask keeps, times
    the layer's weight; its size is what the layer then takes in memory.

    Parameters
    ----------
    terms
        A term with a name of its own for every layer; the pattern it carries plays no role here.
        Scores in permuted order give what a layer keeps once it is permuted.
    patterns
        What layers may become, such as ``["2:4", "64:2:8"]``.
    weights
        How much a layer counts, by name, >= 0; 1 where it is missing.
    value_bits
        Bits of a stored value.
    costs
        Further costs by name, such as ``{"time": f}``: ``f(pattern, shape)`` returns what a layer
        of that shape takes, for the pattern None when it stays dense.

    Raises
    ------
    ProblemError
        Two layers have one name, a layer has none, or a weight is negative or no number.
    UnknownName
        A weight names no layer.

    Examples
    --------
    >>> import numpy as np, permsearch as ps
    >>> term = ps.Term(np.abs(ps.instances.gaussian(8, 8, seed=0)), "2:4", name="a")
    >>> [(str(option), option.costs["size"]) for option in layer_options([term], ["2:4"])["a"]]
    [('dense', 1024.0), ('2:4', 576.0)]
    """
    parsed = [parse_pattern(pattern) for pattern in patterns]
    terms, weights = tuple(terms), weights or {}
    names = [term.name for term in terms]
    for name in weights:
        if name not in names:
            raise unknown("layer", name, names)
    found: dict[str, tuple[Option, ...]] = {}
    for position, term in enumerate(terms):
        if not term.name or term.name in found:
            raise ProblemError(
                f"term {position} needs a name of its own to be given a pattern, got {term.name!r}."
            )
        weight = weights.get(term.name, 1.0)
        if not (is_number(weight) and 0 <= weight < math.inf):
            raise ProblemError(f"the weight of {term.name} must be finite and >= 0, got {weight}.")
        total = float(term.scores.sum(dtype="float64"))
        fitting = [pattern for pattern in parsed if _fits(pattern, term.scores.shape)]
        options = []
        for pattern in (None, *fitting):
            kept = 1.0 if pattern is None or total == 0 else pattern.retained(term.scores) / total
            size = {"size": stored_bits(pattern, term.scores.shape, value_bits)}
            further = {key: f(pattern, term.scores.shape) for key, f in (costs or {}).items()}
            options.append(Option(pattern, weight * kept, size | further))
        found[term.name] = tuple(options)
    return found


def _fits(pattern: Pattern, shape: tuple[int, ...]) -> bool:
    try:
        pattern.check(shape)
    except PatternError:
        return False
    return True


def dense_costs(options: Mapping[str, Sequence[Option]]) -> dict[str, float]:
    """Return what all layers cost together when they stay dense: the 100 % of a budget.

    Raises
    ------
    ProblemError
        A layer cannot stay dense.
    """
    sums: dict[str, float] = {}
    for name, choices in options.items():
        dense = next((option for option in choices if option.pattern is None), None)
        if dense is None:
            raise ProblemError(f"{name} has no dense option; give budgets as absolute numbers.")
        for key, cost in dense.costs.items():
            sums[key] = sums.get(key, 0.0) + cost
    return sums
