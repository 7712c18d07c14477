"""Proving a grouping optimal: what can still be better is listed, and an integer program decides.

With duals u and the limit g they prove, every group of an order that keeps more than a known one
is worth at least (known - g) beyond its duals. One pricing lists all such groups; they are few
when the limit is tight. The integer program over them has the optimum or shows there is no better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from permsearch.certificates.pricing import Found, valued
from permsearch.stack import Stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

_TOLERANCE = 1e-9  # of the integer program, relative to the value
_RESOLUTION = 1 << 40  # of CP-SAT's integers: the value of all groups together


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What an integer program found.

    Attributes
    ----------
    order
        The best grouping it found, as an order; None where it found none.
    limit
        No grouping of the listed groups is worth more; infinite where nothing is known.
    finished
        Whether it ended by itself or by its node limit, and not by the clock.
    proven
        Whether the grouping is the best of all, or there is none.
    """

    order: I64 | None
    limit: float
    finished: bool
    proven: bool


def with_order(stack: Stack, found: Found, duals: Floats, most: int, order: I64) -> Found:
    """Return the groups that are worth most beyond their duals, and those of an order."""
    best = np.argsort(-found.reduced(duals), kind="stable")[:most]
    known = np.sort(order.reshape(-1, stack.m), axis=1)
    groups = np.unique(np.concatenate([found.groups[best], known]), axis=0)
    return valued(stack, groups)


def by_highs(found: Found, duals: Floats, *, nodes: int | None, seconds: float | None) -> Answer:
    """Return what HiGHS makes of the groups, in at most so many nodes and seconds.

    Parameters
    ----------
    found
        The groups to choose from.
    duals : float64 array, shape (C,)
        Their reduced values are what is maximised: they are small, so tolerances are, too.
    nodes, seconds
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_matrix

    count, size = len(duals), len(found.values)
    if size == 0:
        return Answer(None, -np.inf, finished=True, proven=True)
    worth = found.reduced(duals)
    unit = max(float(np.abs(worth).max()), 1e-300)
    starts = np.arange(size + 1) * found.groups.shape[1]
    ones = np.ones(found.groups.size)
    once = csc_matrix((ones, found.groups.ravel(), starts), shape=(count, size))
    options: Any = {"mip_rel_gap": 0.0}
    if nodes is not None:
        options["node_limit"] = nodes
    if seconds is not None:
        options["time_limit"] = max(seconds, 1e-3)
    solved = milp(
        -worth / unit,
        constraints=LinearConstraint(once, 1, 1),
        integrality=np.ones(size, dtype=np.uint8),
        bounds=Bounds(0, 1),
        options=options,
    )
    base = float(duals.sum())
    order = None if solved.x is None else found.groups[solved.x > 0.5].ravel()
    if solved.status == 2:  # infeasible: no grouping is made of these groups
        return Answer(None, -np.inf, finished=True, proven=True)
    limit = np.inf
    if solved.mip_dual_bound is not None and np.isfinite(solved.mip_dual_bound):
        slack = 1e-6 * unit + _TOLERANCE * abs(base)
        limit = base - float(solved.mip_dual_bound) * unit + slack
    timed_out = seconds is not None and solved.status == 1 and "ime limit" in str(solved.message)
    return Answer(order, limit, finished=not timed_out, proven=solved.status == 0)


def by_cpsat(found: Found, duals: Floats, *, seconds: float | None) -> Answer:
    """Return what CP-SAT makes of the groups: an independent prover, slow beyond a few columns.

    Values become integers, at a resolution of 2**-40 of the total.
    """
    from ortools.sat.python import cp_model

    count, size = len(duals), len(found.values)
    worth = found.reduced(duals)
    total = max(float(np.abs(duals).sum()), 1e-300)
    whole = np.rint(worth * (_RESOLUTION / total)).astype(np.int64)
    model = cp_model.CpModel()
    used = [model.new_bool_var(str(k)) for k in range(size)]
    members: list[list[Any]] = [[] for _ in range(count)]
    for variable, group in zip(used, found.groups.tolist(), strict=True):
        for column in group:
            members[column].append(variable)
    for some in members:
        model.add_exactly_one(some)
    model.maximize(cp_model.LinearExpr.weighted_sum(used, whole.tolist()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if seconds is not None:
        solver.parameters.max_time_in_seconds = max(seconds, 1e-3)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Answer(None, -np.inf, finished=True, proven=True)
    base, unit = float(duals.sum()), total / _RESOLUTION
    known = status in {cp_model.OPTIMAL, cp_model.FEASIBLE}
    order = found.groups[[bool(solver.value(x)) for x in used]].ravel() if known else None
    limit = base + (solver.best_objective_bound + count) * unit if known else np.inf
    proven = status == cp_model.OPTIMAL
    return Answer(order, limit, finished=proven, proven=proven)
