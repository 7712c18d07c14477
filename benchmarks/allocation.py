"""Patterns for the layers of MiniLM under one and two budgets, and for many invented layers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import permsearch as ps
from benchmarks.matrices import trained
from permsearch.allocation import Option, dense_costs
from permsearch.patterns import Pattern

if TYPE_CHECKING:
    import argparse

PATTERNS = ("2:4", "1:4", "64:2:8", "vector:32@0.25")
ONE_BUDGET = (0.27, 0.30, 0.40, 0.50, 0.5625, 0.70, 0.90)
TWO_BUDGETS = ((0.3, 0.5), (0.4, 0.6), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8))
_TIMES = {"dense": 100, "2:4": 62, "1:4": 62, "64:2:8": 40, "vector:32@0.25": 36}


def _time(pattern: Pattern | None, shape: tuple[int, ...]) -> float:
    return _TIMES["dense" if pattern is None else str(pattern)] * float(np.prod(shape))


def _terms() -> list[ps.Term]:
    return [
        ps.Term(np.square(weight, dtype=np.float32), "2:4", name=name)
        for name, weight in trained()
        if name.startswith("minilm/encoder") and weight.ndim == 2
    ]


def _row(
    what: str, options: Mapping[str, tuple[Option, ...]], budgets: Mapping[str, float]
) -> dict[str, Any]:
    """Return what an allocation within shares of the dense costs reaches."""
    dense = dense_costs(options)
    begun = time.process_time()
    plan = ps.allocate(options, {key: share * dense[key] for key, share in budgets.items()})
    seconds = time.process_time() - begun
    chosen = [str(option) for option in plan.chosen.values()]
    return {
        "what": what,
        "layers": len(options),
        "budgets": ", ".join(f"{key} {share:g}" for key, share in budgets.items()),
        "value": plan.value,
        "gap": plan.gap,
        "status": str(plan.status),
        "cpu_seconds": seconds,
        "chosen": ", ".join(f"{chosen.count(n)} {n}" for n in _TIMES if n in chosen),
    }


def _invented(layers: int) -> dict[str, tuple[Option, ...]]:
    """Return layers of five options each, better ones dearer, of random values and costs."""
    rng = np.random.default_rng(0)
    options = {}
    for layer in range(layers):
        values, sizes, times = (np.sort(rng.random(5)) for _ in range(3))
        options[str(layer)] = tuple(
            Option(None if place == 4 else ps.NM(place + 1, 5), v, {"size": s, "time": t})
            for place, (v, s, t) in enumerate(zip(values, sizes, times, strict=True))
        )
    return options


def run() -> Iterator[dict[str, Any]]:
    """Yield a row per network and budget."""
    options = ps.layer_options(_terms(), PATTERNS, costs={"time": _time})
    _row("warm-up", options, {"size": 0.5, "time": 0.6})
    for share in ONE_BUDGET:
        yield _row("MiniLM", options, {"size": share})
    for size, duration in TWO_BUDGETS:
        yield _row("MiniLM", options, {"size": size, "time": duration})
    for layers in (500, 2000):
        yield _row("invented", _invented(layers), {"size": 0.5})
        yield _row("invented", _invented(layers), {"size": 0.5, "time": 0.55})


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the table of this part."""
    del options
    yield "allocation", run()
