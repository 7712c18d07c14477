"""Gram matrices of all inputs of SmolLM2's weights, computed once for a calibration set and kept.

Products of a batch are in float32, sums over batches in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from benchmarks.accuracy.language_stages import Seen, walk
from permsearch.io.atomic import written_aside
from pruning.statistics import Inputs

Grams = Mapping[str, torch.Tensor]


def grams(model: nn.Module, windows: torch.Tensor, path: Path) -> Grams:
    """Return the mean of x x^T for the inputs of each stage's first weight, float32.

    Read from `path` where it is there, written there otherwise; memory is mapped, not read.
    """
    if not path.exists():
        found: dict[str, torch.Tensor] = {}

        def visit(name: str, seen: Sequence[Iterator[Seen]]) -> None:
            rows = 0
            total = torch.zeros(())
            for value, _ in seen[0]:
                total, rows = total + product(value, value), rows + len(value)
            found[name] = (total / rows).float()

        walk([model], windows, visit)
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as aside:
            torch.save(found, aside)
    kept: Grams = torch.load(path, mmap=True, weights_only=True)
    return kept


def product(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Return one^T two in float64, computed in float32 whatever the context says."""
    with torch.autocast("cpu", enabled=False):
        return (one.float().T @ two.float()).double()


def inputs_of(name: str, gram: torch.Tensor) -> Inputs:
    """Return a mean of x x^T as the library's methods take it."""
    wide = gram.double()
    return Inputs(name, 1, wide.diagonal()[None].clone(), wide[None])
