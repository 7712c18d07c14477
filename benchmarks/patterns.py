"""Published searches against ours, for every pattern on every trained weight that carries it.

The published search runs at its own default effort; ours gets as many CPU seconds, half a second
at least. Kept shares are those of the masks, so a published mask rule counts with its own mask.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from importlib import import_module
from pkgutil import iter_modules
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks import pattern_cases
from benchmarks.matrices import trained
from benchmarks.pattern_cases.base import Case

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SHORTEST = 0.5  # seconds that ours is given at least


def cases() -> Iterator[Case]:
    """Yield what is compared, pattern by pattern."""
    for found in iter_modules(pattern_cases.__path__):
        yield from getattr(import_module(f"{pattern_cases.__name__}.{found.name}"), "CASES", ())


def compared(case: Case, name: str, weight: NDArray[Any]) -> dict[str, Any]:
    """Return what no order, the published search and ours keep of a weight, and their times."""
    problem = ps.single(weight, case.pattern, name=name)
    begun = time.process_time()
    published = case.published(np.abs(weight), case.pattern) / problem.total
    seconds = time.process_time() - begun
    begun = time.process_time()
    result = ps.solve(problem, case.ours, stop=ps.MaxCpuSeconds(max(SHORTEST, seconds)))
    used = time.process_time() - begun
    none = result.share(result.baseline)
    return {
        "pattern": case.pattern,
        "published_search": case.label,
        "tensor": name,
        "shape": "x".join(map(str, weight.shape)),
        "none": none,
        "published": published,
        "published_seconds": seconds,
        "ours": result.retained,
        "ours_seconds": used,
        "bound": result.share(result.bound),
        "better": result.retained >= published and result.retained >= none,
    }


def run(only: str, done: Collection[tuple[str, str, str]] = ()) -> Iterator[dict[str, Any]]:
    """Yield a row per pattern and weight that is not done.

    `only` is part of the pattern or the weight's name.
    """
    for case in cases():
        ready = False
        for name, weight in trained(1):
            if only not in case.pattern and only not in name:
                continue
            if (case.pattern, case.label, name) in done:
                continue
            try:
                ps.parse_pattern(case.pattern).check(weight.shape)
            except ps.PatternError:
                continue
            if not ready:  # compiling is not searching
                compared(case, name, weight)
                ready = True
            yield compared(case, name, weight)


def summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row per pattern: medians over its weights, and how often ours is not behind."""
    for case in cases():
        mine = [
            row
            for row in rows
            if (row["pattern"], row["published_search"]) == (case.pattern, case.label)
        ]
        if mine:
            yield {
                "pattern": case.pattern,
                "published_search": case.label,
                "weights": len(mine),
                "better": sum(row["better"] for row in mine),
                **{
                    key: median(row[key] for row in mine)
                    for key in ("none", "published", "ours", "published_seconds", "ours_seconds")
                },
                "least_gain": min(row["ours"] - row["published"] for row in mine),
            }


def _stored(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows that earlier runs kept."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the weights one by one, then their summary."""
    rows = _stored(options.rows)
    yield "patterns", _kept(options, rows)
    yield "patterns_summary", summary(rows)


def _kept(options: argparse.Namespace, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield new rows, adding each to `rows` and to the file that keeps them."""
    for row in run(options.only, {_key(row) for row in rows}):
        rows.append(row)
        if options.rows is not None:
            with options.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        yield row


def _key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["pattern"], row["published_search"], row["tensor"]
