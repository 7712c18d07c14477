"""Accuracy of small image networks after pruning, with and without what repairs them.

Every cell is pruned by `pruning.prune`, as a user would. Items are chunks of 50 images.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import pruning
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.images_models import Data
from permsearch.domains import sample
from pruning.recipe import LayerRule, Method, Recipe

EPOCH = ", one epoch"
CHUNK = 50
DRAWS = range(1, 6)
#: Steps of the search for orders.
STEPS = 500
#: (scores, method) of the recipe, by what tables call them.
METHODS: dict[str, tuple[str, Method]] = {
    "magnitude": ("magnitude", "mask"),
    "refit": ("wanda_squared", "refit"),
    "sparsegpt+refit": ("wanda_squared", "sparsegpt+refit"),
}


@dataclass(frozen=True, slots=True)
class Training:
    """How a network learns for one epoch: images, rate, and the optimizer."""

    images: int
    rate: float
    optimizer: Callable[[Iterator[nn.Parameter], float], torch.optim.Optimizer]


@dataclass(frozen=True, slots=True)
class Images:
    """A task, as `benchmarks.accuracy.base.Task` has it.

    Parameters
    ----------
    make
        The trained dense network of a seed; it is not changed.
    data
        The images.
    match
        Globs of the layers that are pruned.
    wanted
        The cells.
    """

    name: str
    make: Callable[[int], nn.Module]
    data: Callable[[], Data]
    match: tuple[str, ...]
    training: Training
    wanted: tuple[Cell, ...]
    measures: tuple[Measure, ...]

    def cells(self) -> Iterator[Cell]:
        """Return all cells."""
        return iter(self.wanted)

    def open(self) -> Callable[[Cell], Measured]:
        """Load the images."""
        torch.set_num_threads(1)
        return self.measure

    def measure(self, cell: Cell) -> Measured:
        """Prune the network as the cell says; judge it as it is, and with batch norms anew."""
        data, seed = self.data(), cell.calibration_seed
        model = copy.deepcopy(self.make(seed))
        shuffled = torch.randperm(len(data.images), generator=torch.Generator().manual_seed(seed))
        optimizer = self.training.optimizer(model.parameters(), self.training.rate)
        numbers = {}
        if cell.pattern != "dense":
            numbers = self.prune(model, cell, data.images[shuffled[:250]], optimizer)
        if cell.method.endswith(EPOCH.removeprefix(", ")):
            learn(model, data, shuffled[: self.training.images], optimizer)
        items = {"accuracy": accuracy(model, data)}
        batches = torch.split(data.images[shuffled[:1000]], 250)
        if pruning.reestimate_batchnorm_(model, batches):
            items["re-estimated"] = accuracy(model, data)
        return Measured(items, numbers)

    def prune(
        self, model: nn.Module, cell: Cell, images: torch.Tensor, optimizer: torch.optim.Optimizer
    ) -> dict[str, float]:
        """Prune a model in place."""
        model.eval()
        network = pruning.trace(model, images[:3])
        if cell.order == "random":
            rng = np.random.default_rng(cell.order_seed)
            drawn = {name: sample(domain, rng) for name, domain in network.domains.items()}
            pruning.permute_(model, drawn, network=network)
            network = pruning.trace(model, images[:3])
        scores, method = METHODS[cell.method.removesuffix(EPOCH)]
        rule = LayerRule(self.match, cell.pattern, scores, method)
        solver = "auto" if cell.order == "absorbed" else "none"
        recipe = Recipe((rule,), solver, steps=STEPS, seed=cell.order_seed)
        result = pruning.prune(
            model,
            recipe,
            example_inputs=images[:3],
            calibration=[images],
            network=network,
            optimizer=optimizer,
        )
        records = [entry.record for entry in result.bundle.values()]
        errors = [row["output_error"] for row in records if "output_error" in row]
        kept = sum(row["retained"] * row["total"] for row in records)
        numbers = {
            "density": result.density,
            "layers": float(len(records)),
            "kept": kept / sum(row["total"] for row in records),
        }
        return numbers | ({"layer_error": float(np.mean(errors))} if errors else {})


def learn(
    model: nn.Module, data: Data, places: torch.Tensor, optimizer: torch.optim.Optimizer
) -> None:
    """Train for one epoch over some images, in batches of 64, the rate falling as a cosine."""
    batches = torch.split(places, 64)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(batches))
    model.train()
    for batch in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.images[batch]), data.classes[batch])
        torch.autograd.backward(loss)
        optimizer.step()
        fall.step()
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, data: Data) -> list[float]:
    """Return the percentage of each chunk of images that is classified rightly."""
    model.eval()
    found = [model(part).argmax(1) for part in torch.split(data.judged, 500)]
    right = (torch.cat(found) == data.judged_classes).float()
    return [100 * float(chunk.mean()) for chunk in torch.split(right, CHUNK)]


def all_orders(pattern: str, method: str, seeds: Sequence[int]) -> Iterator[Cell]:
    """Yield stored and searched orders for some seeds, and random orders for the first."""
    for seed in seeds:
        yield Cell(pattern, method, "stored", 0, seed)
        yield Cell(pattern, method, "absorbed", 0, seed)
    for draw in DRAWS:
        yield Cell(pattern, method, "random", draw, seeds[0])
