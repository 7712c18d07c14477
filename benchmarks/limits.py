"""Limits of patterns that keep or drop vectors and blocks: every kind that applies.

Large matrices have limits from sorting and from singular values; slices of few rows have the set
partitioning limit too, and the optimum where all groupings can be tried.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import permsearch as ps
from benchmarks.matrices import matrix
from permsearch.limits.effort import MOST_GROUPS, MOST_SIDE, Effort
from permsearch.limits.terms import ceiling, free_axes, pattern_limits

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from numpy.typing import NDArray

LARGE = ("q0", "ffn-in", "ffn-out", "gaussian 512", "column-scaled 512")
PATTERNS = (
    "vector:32@0.25",
    "vector:64@0.25",
    "block:16x16@0.25",
    "block:32x32@0.25",
    "64:2:8",
    "hinm:32@0.5:2:4",
    "tile:128@0.25",
    "transposable:2:4",
)
SMALL = (("q0", 16, 64), ("q0", 32, 64), ("gaussian 512", 16, 64), ("column-scaled 512", 16, 64))
FEW = ("vector:4@0.25", "vector:8@0.25", "block:4x4@0.25")


def _matrix(name: str) -> NDArray[Any]:
    if name == "gaussian 512":
        return ps.instances.gaussian(512, 512)
    return matrix(name)


def _row(name: str, weight: NDArray[Any], pattern: str, effort: Effort) -> dict[str, Any]:
    """Return the least limit of every kind as a share of the total, and the start."""
    problem = ps.single(weight, pattern)
    term = problem.terms[0]
    begun = time.process_time()
    found: dict[str, float] = {"unstructured": ceiling(term) / problem.total}
    for limit in pattern_limits(term, free_axes(problem, term), effort):
        share = limit.value / problem.total
        found[limit.kind] = min(share, found.get(limit.kind, np.inf))
    return {
        "matrix": name,
        "rows": weight.shape[0],
        "cols": weight.shape[1],
        "pattern": pattern,
        "start": problem.evaluate({}) / problem.total,
        **{kind: found.get(kind) for kind in ("unstructured", "row", "spectral", "partition")},
        "cpu_seconds": time.process_time() - begun,
    }


def _large() -> Iterator[dict[str, Any]]:
    for name in LARGE:
        weight = _matrix(name)
        for pattern in PATTERNS:
            yield _row(name, weight, pattern, Effort(MOST_SIDE))


def _small() -> Iterator[dict[str, Any]]:
    for name, rows, cols in SMALL:
        weight = _matrix(name)[:rows, :cols]
        for pattern in FEW:
            yield _row(name, weight, pattern, Effort(MOST_SIDE, MOST_GROUPS))


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield the tables of this part."""
    del options
    ps.bound(ps.single(ps.instances.gaussian(8, 8), "vector:4@0.25"), "partition")
    yield "limits", _large()
    yield "small limits", _small()
