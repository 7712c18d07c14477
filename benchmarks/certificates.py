"""What is proven, and in what time: optima of small instances, certified gaps of large ones.

The time of the search for the incumbent is not counted in the gaps, but is in the optima.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks.matrices import matrix
from permsearch.problem import Problem, Term

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Case:
    """A matrix to prove something about: the gap or the optimum, in so many CPU seconds."""

    name: str
    rows: int | None
    cols: int | None
    seconds: float
    gap: float | None = None  # to reach; None: the optimum is to be proven
    search: float = 10.0  # CPU seconds for the incumbent
    segment: int | None = None


CASES: tuple[Case, ...] = (
    Case("gaussian", 128, 32, 15),
    Case("lognormal_columns", 128, 32, 15),
    Case("q0", 128, 32, 15),
    Case("gaussian", 128, 48, 120),
    Case("lognormal_columns", 128, 48, 120),
    Case("q0", 128, 48, 120),
    Case("uniform 128x64", None, None, 120),
    Case("q0", None, 128, 5, 0.0010),
    Case("q0", None, None, 30, 0.0008),
    Case("ffn-in", None, None, 80, 0.0007, 15),
    Case("gaussian", 512, 512, 90, 0.0015),
    Case("lognormal_columns", 384, 384, 120, 0.0015),
    Case("gaussian", 4096, 4096, 600, 0.001, 10, 64),
    Case("gaussian", 1024, 1024, 1200, 0.002, 20),
)


def problem_of(case: Case) -> Problem:
    """Return the 2:4 problem of a case."""
    weight: NDArray[Any]
    if case.name in ps.instances.KINDS:
        assert case.rows is not None
        assert case.cols is not None
        weight = ps.instances.instance(case.name, case.rows, case.cols, seed=0)
    else:
        weight = matrix(case.name)[: case.rows, : case.cols]
    count = weight.shape[1]
    lengths = (count,) if case.segment is None else (case.segment,) * (count // case.segment)
    term = Term(np.abs(weight), ps.NM(2, 4), cols="cols")
    return Problem({"cols": ps.Segments(lengths)}, (term,))


def _proven(case: Case, problem: Problem) -> dict[str, Any]:
    begun = time.process_time()
    result = ps.solve(problem, "exact", stop=ps.MaxCpuSeconds(case.seconds))
    return {
        "retained": result.retained,
        "bound": result.share(result.bound),
        "gap": result.gap,
        "status": str(result.status),
        "cpu_seconds": time.process_time() - begun,
        "held": result.status is ps.Status.OPTIMAL,
    }


def _certified(case: Case, problem: Problem) -> Iterator[dict[str, Any]]:
    """Yield a row after the first pricing of all groups, and after as many as fit."""
    result = ps.solve(problem, "anneal", stop=ps.MaxCpuSeconds(case.search))
    fits = ps.MaxCpuSeconds(case.seconds)
    for pricings, stop in ((1, ps.AnyOf(ps.MaxSteps(1), fits)), (None, fits)):
        begun = time.process_time()
        limit = ps.bound(problem, "partition", stop=stop, start=result.solution)
        seconds = time.process_time() - begun
        gap = (limit.value - result.score) / limit.value
        room = limit.value - result.baseline
        yield {
            "pricings": pricings,
            "retained": result.retained,
            "bound": limit.value / problem.total,
            "gap": gap,
            "of_gain": (result.score - result.baseline) / room,
            "kind": limit.kind,
            "cpu_seconds": seconds,
            "held": case.gap is not None and gap <= case.gap and seconds <= 1.1 * case.seconds,
        }


def _warm_up() -> None:
    for scale in (0.0, 3.0):
        weight = ps.instances.gaussian(16, 24) * np.exp(scale * np.arange(24) / 24)
        problem = ps.single(weight, "2:4")
        ps.solve(problem, "exact", stop=ps.MaxSteps(9))
        ps.bound(problem, "partition")


def run(longest: float = 120.0) -> Iterator[dict[str, Any]]:
    """Yield rows for every case whose budget is at most `longest` seconds."""
    _warm_up()
    for case in CASES:
        if case.seconds > longest:
            continue
        problem = problem_of(case)
        rows, cols = problem.terms[0].scores.shape
        about = {"matrix": case.name, "rows": rows, "cols": cols, "goal": case.gap}
        found = [_proven(case, problem)] if case.gap is None else _certified(case, problem)
        for row in found:
            yield {**about, **row, "allowed": case.seconds}


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the table of this part."""
    yield "certificates", run(options.longest)
