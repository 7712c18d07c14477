"""Orders for the error that is left after compensation: does a search on it beat Wanda squared.

Layer by layer, without forward passes. The refit of what a row keeps leaves w_D^T C w_D, with D
what it drops and C the covariance of those inputs given the kept ones, C = ((H^-1)_DD)^-1. Scores
are approximations of that: Wanda squared takes C's diagonal before anything is known, OBS when all
others are known, and `conditional` when a random half is known, which is where 2:4 stands. The last
order goes further: swaps of columns that lower the exact error of sampled rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy import encoder, fitting, minilm, orders
from benchmarks.accuracy import tables as shown
from benchmarks.accuracy.base import Cell, Measure, Measured
from benchmarks.accuracy.orders import Index, LayerOrder
from benchmarks.accuracy.spread import Results
from permsearch.patterns import NM
from pruning import scores as score
from pruning import update
from pruning.curvature import damped
from pruning.statistics import Inputs

PATTERN = NM(2, 4)
PARTS = ("attention.self.query", "attention.output.dense", "intermediate.dense")
LAYERS = [f"encoder.layer.{at}.{part}.weight" for at in (0, 2, 4) for part in PARTS]
Score = Callable[[Tensor, Inputs], Tensor]


def conditional(weight: Tensor, inputs: Inputs, draws: int = 16, seed: int = 0) -> Tensor:
    """Return w^2 times the variance of an input given a random half of the others.

    The mean over draws of halves; (H^-1)_DD is inverted once for each draw, for all rows.
    """
    inverse = _inverse(inputs)
    count, total = inverse.new_zeros(len(inverse)), inverse.new_zeros(len(inverse))
    draw = np.random.default_rng(seed)
    for _ in range(draws):
        order = torch.from_numpy(draw.permutation(len(inverse)))
        for half in order.chunk(2):
            factor = torch.linalg.cholesky(inverse[half][:, half])
            total[half] += torch.cholesky_inverse(factor).diagonal()
            count[half] += 1
    return weight.square() * (total / count).to(weight)


def _inverse(inputs: Inputs) -> Tensor:
    (gram,) = inputs.grams()
    return torch.cholesky_inverse(torch.linalg.cholesky(damped(gram).matrix))


SCORES: Mapping[str, Score] = {
    "energy": lambda weight, inputs: score.energy(weight),
    "Wanda squared": score.wanda_squared,
    "conditional": conditional,
    "OBS": score.obs_diagonal,
}
SWAPS = "swaps on the error"
METHODS = ("Wanda squared", *(f"{name} + refit" for name in SCORES), "SparseGPT + refit")
ORDERS = ("stored", "random", *(f"on {name}" for name in SCORES), SWAPS)


def swapped(
    weight: Tensor,
    values: Tensor,
    start: Index,
    inputs: Inputs,
    *,
    tries: int = 250,
    rows: int = 48,
) -> Index:
    """Return an order after swaps of columns that lower the refitted error of sampled rows.

    Parameters
    ----------
    values
        Scores that masks are chosen by.
    tries
        Random swaps between two groups; those that do not lower the error are taken back.
    """
    draw = np.random.default_rng(0)
    some = torch.from_numpy(draw.choice(len(weight), min(rows, len(weight)), replace=False))
    inverse, own, part = _inverse(inputs).float(), weight[some], values[some]
    cols = start.copy()
    best = _left(inverse, own, _mask(part, cols))
    for _ in range(tries):
        one, other = draw.integers(len(cols), size=2)
        if one // PATTERN.m == other // PATTERN.m:
            continue
        cols[[one, other]] = cols[[other, one]]
        error = _left(inverse, own, _mask(part, cols))
        if error < best:
            best = error
        else:
            cols[[one, other]] = cols[[other, one]]
    return cols


def _left(inverse: Tensor, weight: Tensor, mask: Tensor) -> float:
    """Return the sum over rows of w_D^T ((H^-1)_DD)^-1 w_D."""
    gone = torch.argsort(mask.byte(), dim=1, stable=True)[:, : mask.shape[1] // 2]
    lost = weight.gather(1, gone)[..., None]
    factor = torch.linalg.cholesky(inverse[gone[:, :, None], gone[:, None, :]])
    return float(torch.linalg.solve_triangular(factor, lost, upper=False).square().sum())


def _mask(values: Tensor, cols: Index) -> Tensor:
    return fitting.masked(values, LayerOrder(np.arange(len(values)), cols), PATTERN)


@cache
def _order(order: str, draw: int, name: str) -> Index:
    weight, inputs = encoder.tensors()[name], minilm.seen(0)[name]
    if order == "stored":
        return np.arange(weight.shape[1])
    if order == "random":
        return np.random.default_rng(draw).permutation(weight.shape[1])
    if order == SWAPS:
        values = conditional(weight, inputs)
        return swapped(weight, values, _order("on conditional", 0, name), inputs)
    values = SCORES[order.removeprefix("on ")](weight, inputs)
    return orders.gathered({name: values}, "2:4", 0, 4000)[name].cols


def error(method: str, order: str, draw: int, name: str) -> float:
    """Return a layer's output error as a share of its output energy."""
    weight, inputs = encoder.tensors()[name], minilm.seen(0)[name]
    cols = _order(order, draw, name)
    if method.startswith("SparseGPT"):
        places = torch.from_numpy(cols)
        new, mask = update.sparsegpt(weight, inputs, PATTERN.n, PATTERN.m, cols=places)
    else:
        mask = _mask(SCORES[method.removesuffix(" + refit")](weight, inputs), cols)
        new = torch.where(mask, weight, 0.0)
    if method.endswith("refit"):
        new = update.refit(weight, mask, inputs)
    energy = update.output_error(weight, torch.zeros_like(weight), inputs)
    return update.output_error(weight, new, inputs) / energy


class Compensated:
    """The task that ``python -m benchmarks.accuracy compensated`` runs: items are layers."""

    name = "compensated"
    measures = (Measure("error", 4),)

    def cells(self) -> Iterator[Cell]:
        """Return every method in every order."""
        for order in ORDERS:
            for draw in range(1, 6) if order == "random" else (0,):
                yield from (Cell("2:4", method, order, draw) for method in METHODS)

    def open(self) -> Callable[[Cell], Measured]:
        """Return what measures a cell."""
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        return lambda cell: Measured(
            {"error": [error(cell.method, cell.order, cell.order_seed, n) for n in LAYERS]}
        )


TASK = Compensated()


def tables(results: Results) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the means over layers, and what each search has over the one on Wanda squared."""
    rows, (measure,) = [("2:4", method) for method in METHODS], TASK.measures
    yield "compensated", shown.means(results, measure, rows, ORDERS)
    wanted = [(order, "on Wanda squared") for order in ORDERS if order != "on Wanda squared"]
    yield "compensated differences", shown.differences(results, measure, rows, wanted)
