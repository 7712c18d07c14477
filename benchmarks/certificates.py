"""What is proven, and in what time: optima of small instances, certified gaps of large ones.

The time of the search for the incumbent is not counted in the gaps, but is in the optima. The
table of gaps that take longer than ten minutes is one of its own, so that it survives a run
without it.
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
_PATIENCE = 4.0
LONG = 600.0  # seconds of a case beyond which it belongs to the table of long ones
QUICK = ("gaussian", 1024, 1024, 5.0)  # a bound below the per-row one, in so many seconds


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
    # the integer program's own limit is wall clock, which runs ahead on a busy machine
    result = ps.solve(problem, "exact", stop=ps.MaxCpuSeconds(_PATIENCE * case.seconds))
    spent = time.process_time() - begun
    return {
        "retained": result.retained,
        "bound": result.share(result.bound),
        "gap": result.gap,
        "status": str(result.status),
        "cpu_seconds": spent,
        "held": result.status is ps.Status.OPTIMAL and spent <= case.seconds,
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
            "slack": limit.slack / problem.total,
            "cpu_seconds": seconds,
            "held": case.gap is not None and gap <= case.gap and seconds <= 1.1 * case.seconds,
        }


def _warm_up() -> None:
    for scale in (0.0, 3.0):
        weight = ps.instances.gaussian(16, 24) * np.exp(scale * np.arange(24) / 24)
        problem = ps.single(weight, "2:4")
        ps.solve(problem, "exact", stop=ps.MaxSteps(9))
        ps.bound(problem, "partition")
        ps.bound(problem, "pair")
    ps.bound(ps.single(weight, "1:2"), "matching")


def _rows(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the rows of a case."""
    problem = problem_of(case)
    rows, cols = problem.terms[0].scores.shape
    about = {"matrix": case.name, "rows": rows, "cols": cols, "segment": case.segment}
    found = [_proven(case, problem)] if case.gap is None else _certified(case, problem)
    for row in found:
        yield {**about, "goal": case.gap, **row, "allowed": case.seconds}


def _quick() -> Iterator[dict[str, Any]]:
    """Yield what stands next to a search of a large matrix: the per-row limit and a lower one."""
    kind, rows, cols, seconds = QUICK
    problem = ps.single(ps.instances.instance(kind, rows, cols, seed=0), "2:4")
    for method in ("row", "pair"):
        begun = time.process_time()
        limit = ps.bound(problem, method)
        spent = time.process_time() - begun
        yield {
            "matrix": kind,
            "rows": rows,
            "cols": cols,
            "kind": limit.kind,
            "bound": limit.value / problem.total,
            "slack": limit.slack / problem.total,
            "cpu_seconds": spent,
            "allowed": seconds,
            "held": limit.kind == method and spent <= seconds,
        }


def _pairing() -> dict[str, Any]:
    """Return the proof of 1:2 on 1024 columns."""
    problem = ps.single(ps.instances.gaussian(1024, 1024), "1:2")
    begun = time.process_time()
    limit = ps.bound(problem, "matching")
    spent = time.process_time() - begun
    score = ps.solve(problem, "matching").score
    gap = (limit.value - score) / limit.value
    return {
        "matrix": "gaussian",
        "rows": 1024,
        "cols": 1024,
        "pattern": "1:2",
        "retained": score / problem.total,
        "bound": limit.value / problem.total,
        "gap": gap,
        "cpu_seconds": spent,
        "held": gap <= 1e-6,
    }


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the tables of this part, with the cases that take at most ``options.longest``."""
    cases = [
        case
        for case in CASES
        if case.seconds <= options.longest and options.only in f"{case.name} {case.cols}"
    ]
    _warm_up()
    tables = {
        "optima": [case for case in cases if case.gap is None],
        "gaps": [case for case in cases if case.gap is not None and case.seconds <= LONG],
        "long gaps": [case for case in cases if case.seconds > LONG],
    }
    for name, some in tables.items():
        if some:
            yield name, (row for case in some for row in _rows(case))
    if not options.only:
        yield "quick bounds", _quick()
        yield "pairing", iter([_pairing()])
