"""A ResNet on Animal-MNIST: 14 convolutions are pruned, the stem and the classifier are not.

Its 24, 48 and 96 channels carry vectors of 8 and tiles of 16 rows. A calibration seed draws the
images that are calibrated on, that batch norms are re-estimated on, and that are learnt from.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from benchmarks.accuracy import tables as shown
from benchmarks.accuracy.base import Cell, Measure
from benchmarks.accuracy.images import EPOCH, Images, Training, all_orders
from benchmarks.accuracy.images_models import animals, trained_resnet
from benchmarks.accuracy.spread import Results

ROWS, SEEDS = ("vector:8@0.25", "tile:16@0.25"), (0, 1)


def _cells() -> Iterator[Cell]:
    for seed in SEEDS:
        yield Cell("dense", "", calibration_seed=seed)
    for method in ("refit", "magnitude", "sparsegpt+refit"):
        yield from all_orders("2:4", method, SEEDS)
    for pattern in ("1:4", *ROWS):
        yield from all_orders(pattern, "refit", SEEDS[:1])
    yield Cell("dense", EPOCH.removeprefix(", "))
    for pattern, method in (("2:4", "magnitude"), ("2:4", "refit"), ("1:4", "refit")):
        yield Cell(pattern, method + EPOCH)
        yield Cell(pattern, method + EPOCH, "absorbed")
    for pattern in ROWS:
        yield Cell(pattern, "refit" + EPOCH)
        yield Cell(pattern, "refit" + EPOCH, "absorbed")
    for pattern in ("1:4", *ROWS):
        yield Cell(pattern, "magnitude")
        yield Cell(pattern, "magnitude", "absorbed")


def _make(_: int) -> nn.Module:
    return trained_resnet()


TASK = Images(
    "resnet",
    _make,
    animals,
    ("layer*",),
    Training(4000, 0.02, partial(torch.optim.SGD, momentum=0.9, weight_decay=1e-4)),
    tuple(_cells()),
    (Measure("accuracy", 1), Measure("re-estimated", 1)),
)


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the tables of the page."""
    rows, orders = shown.rows_of(results), shown.orders_of(results)
    for measure in TASK.measures:
        yield f"resnet {measure.name}", shown.means(results, measure, rows, orders)
    yield "resnet differences", shown.differences(results, TASK.measures[1], rows)
