"""Exact masks against published rules on one Gaussian matrix: `python -m benchmarks.exact_masks`.

CPU seconds of one call after a first one; set NUMBA_NUM_THREADS=1 for those of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from permsearch.published import transposable, unaligned

Scores = NDArray[np.float32]
Rule = Callable[[Scores], NDArray[np.bool_]]
_SIZES = ((2, 4), (4, 8), (8, 16), (16, 32), (4, 16))


def rules(pattern: ps.Pattern) -> Iterator[tuple[str, Rule]]:
    """Yield the ways to mask a weight, exact first, by name."""
    yield "exact", pattern.keep
    if isinstance(pattern, ps.TransposableNM):
        published: dict[str, Any] = {
            "flow": transposable.flow_mask,
            "two-approximation": transposable.two_approximation_mask,
            "entropic": transposable.entropic_mask,
        }
    else:
        published = {"greedy": unaligned.greedy_mask}
    for name, rule in published.items():
        yield name, partial(_called, rule, pattern)


def _called(rule: Any, pattern: ps.Pattern, scores: Scores) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = rule(scores, pattern)
    return mask


def main() -> None:
    """Print kept shares and seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="rows and columns")
    size = parser.parse_args().size
    scores = np.abs(ps.instances.gaussian(size, size, seed=0))
    total = float(scores.sum(dtype=np.float64))
    patterns: list[ps.Pattern] = [ps.TransposableNM(n, m) for n, m in _SIZES]
    patterns += [ps.UnalignedBlock(b, 0.25) for b in (4, 8)]
    for pattern in patterns:
        for name, rule in rules(pattern):
            rule(scores[:64, :64])
            begun = time.process_time()
            kept = float(scores[rule(scores)].sum(dtype=np.float64))
            seconds = time.process_time() - begun
            print(f"{pattern!s:20} {name:18} {kept / total:.5f} {seconds:8.3f} s", flush=True)


if __name__ == "__main__":
    main()
