"""Orders of the encoder's layers: random ones, one for each group, one for each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

import permsearch as ps
import pruning
from benchmarks.accuracy import encoder
from benchmarks.network_models import minilm_folder
from permsearch.patterns import NM, parse_pattern
from pruning.formulate import formulate
from pruning.network import Network
from pruning.reorder import moves_of
from pruning.specs import checkpoint, example_inputs, read_config

Index: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class LayerOrder:
    """Position to old row, and to old column."""

    rows: Index
    cols: Index


Orders: TypeAlias = dict[str, LayerOrder]


def stored(scores: Scores) -> Orders:
    """Return the orders as they are."""
    return {n: LayerOrder(*(np.arange(size) for size in s.shape)) for n, s in scores.items()}


def random(scores: Scores, seed: int) -> Orders:
    """Return random orders of rows and columns, each layer's its own."""
    draw = np.random.default_rng(seed)
    return {n: LayerOrder(*map(draw.permutation, s.shape)) for n, s in scores.items()}


def gathered(scores: Scores, pattern: str, seed: int, steps: int) -> Orders:
    """Return the order that is found for each layer alone; its input is gathered at run time."""
    found = {}
    for name, values in scores.items():
        result = ps.search(values.numpy(), pattern, stop=ps.MaxSteps(steps), seed=seed)
        given = zip((result.rows, result.cols), values.shape, strict=True)
        pair = [np.arange(n) if order is None else np.asarray(order) for order, n in given]
        found[name] = LayerOrder(*pair)
    return found


def absorbed(
    scores: Scores, pattern: str, seed: int, steps: int, *, relative: bool = True
) -> Orders:
    """Return the orders that are found for the encoder's groups; they cost nothing at run time.

    Parameters
    ----------
    relative
        Whether each layer's scores count as shares of its own sum; layers that share an order
        count by their size otherwise.
    """
    network = _network()
    own = {n: (s / s.sum() if relative else s).numpy() for n, s in scores.items()}
    problem = formulate(network, {"encoder.*": pattern}, scores=own).problem
    result = ps.solve(problem, "auto", stop=ps.MaxSteps(steps), seed=seed)
    found = {}
    moves = moves_of(network, result.solution)
    for name, values in scores.items():
        pair = [np.arange(size) for size in values.shape]
        for move in moves.get(name, ()):
            pair[move.dims[0]] = pair[move.dims[0]][move.index]
        found[name] = LayerOrder(*pair)
    return found


@cache
def _network() -> Network:
    """Return the encoder's trace; its output is only compared, so it may be reordered."""
    config = read_config(minilm_folder())
    model = checkpoint(dict(encoder.tensors()), config)
    return pruning.trace(model, example_inputs(config), outputs="free")


def looks_at_rows(pattern: str) -> bool:
    """Whether the order of rows matters for a pattern."""
    return not isinstance(parse_pattern(pattern), NM)


def save(path: Path, orders: Orders) -> None:
    """Keep orders in a file, beside the ledger."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        **{f"{name} {axis}": getattr(o, axis) for name, o in orders.items() for axis in _AXES},
    )


def load(path: Path) -> Orders:
    """Read them back."""
    with np.load(path) as file:
        names = dict.fromkeys(key.rpartition(" ")[0] for key in file)
        return {name: LayerOrder(*(file[f"{name} {axis}"] for axis in _AXES)) for name in names}


_AXES = ("rows", "cols")
