"""A ViT on scikit-learn's digits, trained here: its 24 projections are pruned.

A calibration seed is one of the training, too: another network each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

import torch
from torch import nn

from benchmarks.accuracy import tables as shown
from benchmarks.accuracy.base import Cell, Measure
from benchmarks.accuracy.images import EPOCH, Images, Training, all_orders, learn
from benchmarks.accuracy.images_models import ViT, digits
from benchmarks.accuracy.spread import Results

EPOCHS, SEEDS = 25, (0, 1, 2)
PATTERNS = ("1:4", "vector:32@0.25", "tile:32@0.25")


def _cells() -> Iterator[Cell]:
    for seed in SEEDS:
        yield Cell("dense", "", calibration_seed=seed)
    for method in ("refit", "magnitude", "sparsegpt+refit"):
        yield from all_orders("2:4", method, SEEDS)
    for pattern in PATTERNS:
        yield from all_orders(pattern, "refit", SEEDS)
    for seed in SEEDS:
        yield Cell("dense", EPOCH.removeprefix(", "), calibration_seed=seed)
        for pattern in ("2:4", *PATTERNS):
            yield Cell(pattern, "refit" + EPOCH, "stored", 0, seed)
            yield Cell(pattern, "refit" + EPOCH, "absorbed", 0, seed)


@cache
def _make(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model, data = ViT(), digits()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    shuffled = [torch.randperm(len(data.images), generator=generator) for _ in range(EPOCHS)]
    learn(model, data, torch.cat(shuffled), optimizer)
    return model


TASK = Images(
    "vit",
    _make,
    digits,
    ("blocks*",),
    Training(1397, 5e-4, partial(torch.optim.AdamW, weight_decay=0.01)),
    tuple(_cells()),
    (Measure("accuracy", 1),),
)


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the tables of the page."""
    rows, orders = shown.rows_of(results), shown.orders_of(results)
    yield "vit accuracy", shown.means(results, TASK.measures[0], rows, orders)
    yield "vit differences", shown.differences(results, TASK.measures[0], rows)
