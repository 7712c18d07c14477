"""How many groups limits of pairs and triples would keep a pricing from looking at.

Of random groups: the share whose limit exceeds the threshold of the first pricing, so that their
exact value is needed all the same. ``pairs``: every row limited by the best pairwise majorant.
``pairs, 3/4 exact``: the heaviest three quarters of the rows exact, pairs in the rest. ``triples``:
f(abcd) <= f(abc) + f(abd) - f(ab), which holds since f is submodular.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import permsearch as ps
from benchmarks.certificates import CASES, problem_of
from permsearch._pair_bound import _interpolate, _scale, _uniform_cost
from permsearch._pair_majorant import Majorant, cheapest, factor, knot_count, make_grid
from permsearch.certificates.partition import _MARGIN, _Search
from permsearch.certificates.pricing import valued
from permsearch.stack import Stack, pieces

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS = 3000  # of the annealing whose order the duals are fitted around
_MATRICES = {("q0", None), ("gaussian", 512), ("lognormal_columns", 384), ("uniform 128x64", None)}


def _pairs(stack: Stack, groups: NDArray[np.int64]) -> Floats:
    """Return what pairs let groups hold at most."""
    scaled = _scale(stack.columns, stack.n, stack.m, knot_count(stack.m))
    assert scaled is not None
    grid = make_grid(scaled.knots, stack.n, stack.m)
    cost = _uniform_cost(scaled, stack.m - 1)
    answer = cheapest(grid, [cost], None, 0.0)
    assert answer is not None
    majorant: Majorant = factor(grid, answer[0], cost.sum(axis=1) / cost.sum())
    total = np.zeros(len(groups))
    beyond = np.maximum(stack.columns - scaled.quantiles * scaled.knots[-1], 0).sum(axis=1)
    total += beyond[groups].sum(axis=1)
    for cell, way, unit in scaled.cells():
        single = _interpolate(majorant.singles[:, None], cell, way)[..., 0] @ unit
        total += (stack.m - 1) * single[groups].sum(axis=1)
        for sign, table in ((1, majorant.plus), (-1, majorant.minus)):
            square = _interpolate(table, cell, way) * np.sqrt(unit)[:, None]
            flat = square.reshape(len(stack.columns), -1)
            products = flat @ flat.T
            for i in range(stack.m):
                for j in range(i):
                    total += sign * products[groups[:, i], groups[:, j]]
    return total


def _triples(stack: Stack, groups: NDArray[np.int64]) -> Floats:
    """Return the limit of submodularity: two triples less the pair they share."""
    columns = stack.columns

    def top(places: list[int]) -> Floats:
        values = np.zeros(len(groups))
        for row in columns.T:
            part = np.sort(row[groups[:, places]], axis=1)[:, -stack.n :]
            values += part.sum(axis=1, dtype=np.float64)
        return values

    return top([0, 1, 2]) + top([0, 1, 3]) - top([0, 1])


def run() -> Iterator[dict[str, Any]]:
    """Yield one row for each matrix."""
    for case in CASES:
        if (case.name, case.cols) not in _MATRICES or case.segment:
            continue
        problem = problem_of(case)
        piece = next(pieces(problem))
        heavy = np.argsort(-piece.stack.columns.sum(axis=0), kind="stable")
        stack = replace(piece.stack, columns=np.ascontiguousarray(piece.stack.columns[:, heavy]))
        found = ps.solve(problem, "anneal", stop=ps.MaxSteps(_STEPS))
        search = _Search(stack, piece.local(found.solution["cols"]), "auto")
        search.warm_up(lambda: False)
        sample = search.pricer._sample  # noqa: SLF001
        groups = sample.groups[:: -(-len(sample.groups) // 8192)]
        paid = search.duals[groups].sum(axis=1)
        bar = paid - search.pricer.margin(search.duals, _MARGIN * search.unit)
        cut = stack.columns.shape[1] * 3 // 4
        head = replace(stack, columns=np.ascontiguousarray(stack.columns[:, :cut]))
        tail = replace(stack, columns=np.ascontiguousarray(stack.columns[:, cut:]))
        mixed = valued(head, groups).values + _pairs(tail, groups)
        yield {
            "matrix": case.name,
            "rows": stack.columns.shape[1],
            "cols": len(stack.columns),
            "pairs": float((_pairs(stack, groups) > bar).mean()),
            "mixed": float((mixed > bar).mean()),
            "triples": float((_triples(stack, groups) > bar).mean()),
        }


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the table of this part."""
    del options
    yield "pruning", run()
