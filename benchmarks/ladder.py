"""The ladder: method x matrix x budget, and the floor that each rung has to reach."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import permsearch as ps
from benchmarks.matrices import matrix

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Rung:
    """One measurement: what runs on what, in how many CPU seconds, and what it must reach.

    `floor` and `aim` are shares of sum |w| kept, or of the efficacy where `measure` says so.
    """

    matrix: str
    pattern: str
    solver: str
    seconds: float | None
    floor: float | None = None
    aim: float | None = None
    measure: str = "retained"


def _auto(
    name: str, pattern: str, *steps: tuple[float, float], aims: dict[float, float]
) -> list[Rung]:
    return [
        Rung(name, pattern, "auto", seconds, floor, aims.get(seconds)) for seconds, floor in steps
    ]


RUNGS: tuple[Rung, ...] = (
    Rung("q0", "2:4", "none", None),
    Rung("q0", "2:4", "deal", None),
    Rung("q0", "2:4", "swap", 0.1, 0.7592),
    Rung("q0", "2:4", "window", None),
    Rung("q0", "2:4", "matching", 0.2, 0.7604),
    Rung("q0", "2:4", "assignment", 0.2),
    Rung("q0", "2:4", "anneal", 0.3),
    *_auto(
        "q0",
        "2:4",
        (0.1, 0.7608),
        (0.3, 0.7612),
        (1.5, 0.7615),
        (6.0, 0.7617),
        (60.0, 0.7619),
        aims={6.0: 0.7620, 60.0: 0.7622},
    ),
    Rung("ffn-in", "2:4", "none", None),
    Rung("ffn-in", "2:4", "deal", None),
    Rung("ffn-in", "2:4", "swap", None, 0.7544),
    Rung("ffn-in", "2:4", "window", None),
    Rung("ffn-in", "2:4", "matching", None, 0.7550),
    *_auto("ffn-in", "2:4", (1.0, 0.7555), (8.0, 0.7557), aims={8.0: 0.7560}),
    Rung("ffn-out", "2:4", "none", None),
    Rung("ffn-out", "2:4", "deal", None),
    Rung("ffn-out", "2:4", "swap", 2.0, 0.7674),
    Rung("ffn-out", "2:4", "window", None),
    Rung("ffn-out", "2:4", "matching", None),
    *_auto("ffn-out", "2:4", (5.0, 0.7697), (12.0, 0.7702), aims={12.0: 0.7706}),
    Rung("column-scaled 512", "2:4", "none", None),
    Rung("column-scaled 512", "2:4", "swap", None),
    Rung("column-scaled 512", "2:4", "window", None),
    Rung("column-scaled 512", "2:4", "matching", None),
    *_auto("column-scaled 512", "2:4", (1.0, 0.8838), (5.0, 0.8842), aims={5.0: 0.8845}),
    Rung("gaussian 1024", "2:4", "none", None),
    Rung("gaussian 1024", "2:4", "swap", None),
    Rung("gaussian 1024", "2:4", "window", None),
    Rung("gaussian 1024", "2:4", "matching", None),
    *_auto("gaussian 1024", "2:4", (2.0, 0.7539), (20.0, 0.7542), aims={20.0: 0.7545}),
    Rung("gaussian 4096", "2:4", "none", None),
    *_auto("gaussian 4096", "2:4", (25.0, 0.7498), aims={25.0: 0.7501}),
    Rung("q0", "1:2", "matching", None),
    *_auto("q0", "1:4", (1.0, 0.4790), aims={}),
    *_auto("q0", "2:8", (0.5, 0.4992), aims={}),
    *_auto("q0", "4:8", (0.5, 0.7805), aims={}),
    Rung("uniform 128x64", "2:4", "window", None, measure="efficacy"),
    Rung("uniform 128x64", "2:4", "auto", 1.0, 0.365, measure="efficacy"),
    Rung("uniform 128x64", "2:4", "auto", 30.0, 0.373, 0.375, measure="efficacy"),
)


def _warm_up(rung: Rung) -> None:
    """Compile the kernels that a rung uses, on a weight too small to matter."""
    weight = ps.instances.gaussian(40, 160)
    small = ps.single(weight, rung.pattern)
    for stop in (ps.MaxSteps(300), ps.MaxCpuSeconds(0.05)):
        ps.solve(small, rung.solver, stop=stop)


def run_rung(rung: Rung, seeds: range) -> dict[str, Any]:
    """Return the medians over seeds of what a rung reaches and of the CPU seconds it takes.

    The seconds count everything from the array to the result, kernels compiled beforehand.
    """
    _warm_up(rung)
    weight = matrix(rung.matrix)
    stop = None if rung.seconds is None else ps.MaxCpuSeconds(rung.seconds)
    values, seconds = [], []
    for seed in seeds:
        begun = time.process_time()
        result = ps.search(weight, rung.pattern, solver=rung.solver, stop=stop, seed=seed)
        seconds.append(time.process_time() - begun)
        values.append(float(getattr(result, rung.measure)))
    reached = median(values)
    return {
        **asdict(rung),
        "reached": reached,
        "lowest": min(values),
        "highest": max(values),
        "cpu_seconds": median(seconds),
        "seeds": len(seeds),
        "status": str(result.status),
        "steps": result.steps,
        "floor_held": None if rung.floor is None else round(reached, 4) >= rung.floor,
        "aim_held": None if rung.aim is None else round(reached, 4) >= rung.aim,
    }


def run(seeds: range, longest: float) -> Iterator[dict[str, Any]]:
    """Yield a row for every rung whose budget is at most `longest` seconds."""
    for rung in RUNGS:
        if rung.seconds is None or rung.seconds <= longest:
            few = range(seeds.start, seeds.start + 1) if (rung.seconds or 0) > 10 else seeds
            yield run_rung(rung, few)


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the table of this part."""
    yield "ladder", run(range(options.seeds), options.longest)
