"""`allocate`: the patterns of all layers that keep the most within the budgets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from permsearch.allocation.frontier import MOST_BUDGETS, best_choice
from permsearch.allocation.options import Option
from permsearch.allocation.relaxation import Choice, Relaxed, Table, relax
from permsearch.allocation.satisfaction import prove_choice
from permsearch.checks import is_number
from permsearch.errors import ProblemError
from permsearch.patterns import Pattern
from permsearch.result import Status


@dataclass(frozen=True, slots=True)
class Allocation:
    """The option that each layer gets.

    Attributes
    ----------
    chosen
        The option of every layer, by the layer's name.
    value, bound
        Sum of the options' values, and what no choice within the budgets exceeds.
    costs
        Sum of the options' costs, by budget.
    status
        OPTIMAL when no choice is worth more, else STOPPED.
    """

    chosen: Mapping[str, Option]
    value: float
    bound: float
    costs: Mapping[str, float]
    status: Status

    @property
    def patterns(self) -> dict[str, Pattern | None]:
        """The pattern of every layer; None where it stays dense."""
        return {name: option.pattern for name, option in self.chosen.items()}

    @property
    def gap(self) -> float:
        """(bound - value) / bound: 0 means proven optimal."""
        return max(0.0, self.bound - self.value) / self.bound if self.bound > 0 else 0.0


def allocate(
    options: Mapping[str, Sequence[Option]],
    budgets: Mapping[str, float],
    *,
    work: float = 10.0,
) -> Allocation:
    """Return the option for every layer whose sum of values is largest within the budgets.

    One or two budgets are solved exactly by dynamic programming where the states fit into memory;
    all else by CP-SAT, which starts from the rounded linear relaxation.

    Parameters
    ----------
    options
        What each layer may become, by name: `layer_options` makes them.
    budgets
        What the costs of all layers may sum to, by the name of the cost; one at least.
    work
        Where the exact way does not serve: CP-SAT's deterministic time, about CPU seconds.

    Raises
    ------
    ProblemError
        A layer has no options, an option lacks a cost, or no choice fits the budgets: the message
        says by how much.

    Examples
    --------
    >>> small, large = Option(None, 0.5, {"size": 1.0}), Option(None, 0.9, {"size": 3.0})
    >>> plan = allocate({"a": [small, large], "b": [small, large]}, {"size": 4.0})
    >>> plan.value, plan.costs["size"], str(plan.status)
    (1.4, 4.0, 'optimal')
    """
    table = _table(options, budgets)
    _check_room(table, tuple(budgets))
    relaxed = relax(table)
    if relaxed is None:
        raise ProblemError(
            "no choice fits all budgets together, although each fits by itself: raise one of "
            f"{', '.join(budgets)}."
        )
    choice, bound, optimal = _searched(table, relaxed, work)
    if choice is None:
        raise ProblemError(
            f"no choice within the budgets was found in {work:g} of work; raise work= or one of "
            f"{', '.join(budgets)}."
        )
    return _allocation(options, budgets, table, choice, bound, optimal)


def _searched(table: Table, relaxed: Relaxed, work: float) -> tuple[Choice | None, float, bool]:
    """Return the choice, the bound, and whether the choice is optimal."""
    few = len(table.budgets) <= MOST_BUDGETS
    floor = -math.inf if relaxed.choice is None else table.value(relaxed.choice)
    exact = best_choice(table, relaxed, floor) if few and relaxed.choice is not None else None
    if exact is not None:
        return exact, relaxed.bound, True
    choice, bound, optimal = prove_choice(table, relaxed, work=work)
    # a better choice prunes more states
    if few and choice is not None and not optimal and table.value(choice) > floor:
        exact = best_choice(table, relaxed, table.value(choice))
    return (choice, bound, optimal) if exact is None else (exact, bound, True)


def _allocation(
    options: Mapping[str, Sequence[Option]],
    budgets: Mapping[str, float],
    table: Table,
    choice: Choice,
    bound: float,
    optimal: bool,
) -> Allocation:
    value, bound = table.scale * table.value(choice), table.scale * bound
    places = (choice - table.first[:-1]).tolist()
    chosen = {name: options[name][at] for name, at in zip(options, places, strict=True)}
    costs = {key: math.fsum(o.costs[key] for o in chosen.values()) for key in budgets}
    status = Status.OPTIMAL if optimal else Status.STOPPED
    return Allocation(chosen, value, value if optimal else bound, costs, status)


def _table(options: Mapping[str, Sequence[Option]], budgets: Mapping[str, float]) -> Table:
    if not options or not budgets:
        raise ProblemError("allocate needs at least one layer and one budget.")
    for key, budget in budgets.items():
        if not is_number(budget) or not 0 <= budget < math.inf:
            raise ProblemError(f"the budget {key!r} must be a finite number >= 0, got {budget!r}.")
    flat = []
    for name, choices in options.items():
        if not choices:
            raise ProblemError(f"{name} has no options.")
        for option in choices:
            missing = [key for key in budgets if key not in option.costs]
            if missing:
                raise ProblemError(f"the option {option} of {name} has no cost {missing[0]!r}.")
            flat.append(option)
    counts = [len(choices) for choices in options.values()]
    values = np.array([option.value for option in flat], np.float64)
    # a power of two brings values to where the solvers' tolerances are meant for
    exponent = int(np.frexp(float(np.abs(values).max()))[1])
    return Table(
        np.ldexp(values, -exponent),
        np.array([[option.costs[key] for option in flat] for key in budgets], np.float64),
        np.append(0, np.cumsum(counts)).astype(np.int64),
        np.array(list(budgets.values()), np.float64),
        float(np.ldexp(1.0, exponent)),
    )


def _check_room(table: Table, names: Sequence[str]) -> None:
    least = table.least()
    for name, budget, need in zip(names, table.allowed, least, strict=True):
        if need > budget:
            raise ProblemError(
                f"the budget {name!r} of {budget:g} is too small: the cheapest options of all "
                f"layers take {need:g}; raise it, or add cheaper patterns."
            )
