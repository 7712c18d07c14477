"""Several budgets: CP-SAT from the rounded relaxation, with a limit that counts work, not time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from permsearch.allocation.relaxation import Choice, Relaxed, Table, improved

_COST_BITS = 50  # of the largest sum of costs
_VALUE_BITS = 34  # of the largest sum of values: beyond it CP-SAT slows down


def prove_choice(
    table: Table, relaxed: Relaxed, *, work: float
) -> tuple[Choice | None, float, bool]:
    """Return the best choice that CP-SAT finds, the bound that it proves, and whether they meet.

    Parameters
    ----------
    table, relaxed
        The options and their relaxation. Options that lose more than lies between the bound and
        the rounded choice are left out: no better choice takes them.
    work
        CP-SAT's deterministic time, about CPU seconds; results do not depend on the machine's load.
    """
    from ortools.sat.python import cp_model

    floor = -np.inf if relaxed.choice is None else table.value(relaxed.choice)
    useful = relaxed.losses <= relaxed.bound - floor + 1e-9 * max(1.0, abs(relaxed.bound))
    costs, budgets = _whole_costs(table)
    values, unit = _whole_values(table)
    model = cp_model.CpModel()
    used = [model.new_bool_var(str(number)) for number in range(len(values))]
    for layer in range(table.layers):
        options = table.of(layer)
        model.add_exactly_one(used[options])
        for number in range(options.start, options.stop):
            if not useful[number]:
                model.add(used[number] == 0)
    for row, budget in zip(costs, budgets, strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(used, row.tolist()) <= int(budget))
    model.maximize(cp_model.LinearExpr.weighted_sum(used, values.tolist()))
    if relaxed.choice is not None:
        taken = set(relaxed.choice.tolist())
        for number, variable in enumerate(used):
            model.add_hint(variable, int(number in taken))
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = work
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    # without a better choice among the useful options the rounded one is optimal
    optimal = status in {cp_model.OPTIMAL, cp_model.INFEASIBLE}
    if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        return relaxed.choice, relaxed.bound, optimal and relaxed.choice is not None
    bound = min(relaxed.bound, (solver.best_objective_bound + table.layers) * unit)
    found = np.array([n for n, variable in enumerate(used) if solver.value(variable)], np.int64)
    if not table.fits(found) or table.value(found) < floor:
        return relaxed.choice, bound, False
    return improved(table, found), bound, optimal


def _whole_costs(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return costs and budgets as integers, rounded so that no choice that fits is lost."""
    sums = np.maximum.reduceat(table.costs, table.first[:-1], axis=1).sum(axis=1)
    size = np.frexp(np.where(sums > 0, sums, 1.0))[1]
    exact = (table.costs == np.rint(table.costs)).all(axis=1) & (sums < 2.0**_COST_BITS)
    shift = np.where(exact, 0, _COST_BITS - size)
    costs = np.floor(np.ldexp(table.costs, shift[:, None])).astype(np.int64)
    budgets = np.floor(np.ldexp(np.minimum(table.allowed, sums), shift)).astype(np.int64)
    return costs, budgets


def _whole_values(table: Table) -> tuple[NDArray[np.int64], float]:
    """Return values as integers, rounded down, and what one unit is worth."""
    most = max(float(np.abs(table.values).max()) * table.layers, 1e-300)
    unit = most / 2.0**_VALUE_BITS
    return np.floor(table.values / unit).astype(np.int64), unit
