"""Small instances with a proven optimum: the bound, and what every heuristic missed.

The rows are those of ``tests/data/instances/proven.json``, computed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import permsearch as ps

if TYPE_CHECKING:
    import argparse

STORED = Path(__file__).parents[1] / "tests" / "data" / "instances" / "proven.json"
HEURISTICS = ("deal", "swap", "window", "matching", "anneal", "auto")
STEPS = 500


def _missed(problem: ps.Problem, solver: str, start: float, optimum: float) -> float | None:
    try:
        score = ps.solve(problem, solver, stop=ps.MaxSteps(STEPS)).score
    except ps.UnsupportedProblem:
        return None
    return round(1 - (score - start) / (optimum - start), 4) + 0.0


def run() -> Iterator[dict[str, Any]]:
    """Yield one row per instance: optimum and bound as sums, missed as shares of the gain."""
    for stored in json.loads(STORED.read_text(encoding="utf-8")):
        about = {key: stored[key] for key in ("name", "kind", "rows", "cols", "seed", "pattern")}
        weight = ps.instances.instance(
            stored["kind"], stored["rows"], stored["cols"], seed=stored["seed"]
        )
        problem = ps.single(weight, stored["pattern"])
        best = ps.solve(problem, "exact", stop=ps.MaxSteps(300))
        limit = ps.bound(problem)
        missed = {
            solver: _missed(problem, solver, best.baseline, best.score) for solver in HEURISTICS
        }
        yield {
            **about,
            "total": problem.total,
            "start": best.baseline,
            "optimum": best.score,
            "proven": best.status is ps.Status.OPTIMAL,
            "bound": limit.value,
            "bound_kind": limit.kind,
            "missed": {name: share for name, share in missed.items() if share is not None},
        }


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the table of this part."""
    del options
    yield "proven", run()
