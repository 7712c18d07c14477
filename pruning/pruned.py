"""One weight: its mask in the order it is stored in, its new values, and the record of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch

from permsearch.arrays import to_numpy
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.orders import Order
from permsearch.patterns import NM, Private
from pruning.alps import Splitting, split
from pruning.curvature import Solid
from pruning.curvature import solid as solid_of
from pruning.errors import StateError
from pruning.exact_obs import obc
from pruning.layers import rows_dim, turned, unturned
from pruning.moves_text import moves_as_text
from pruning.network import Network
from pruning.plan import PlannedLayer
from pruning.recipe import LayerRule
from pruning.reorder import Move
from pruning.statistics import Inputs
from pruning.update import output_error, refit, sparsegpt, under


@dataclass(frozen=True, slots=True, eq=False)
class Pruned:
    """What became of a weight.

    Attributes
    ----------
    entry
        For the bundle: its mask is in the layout of the weight that came in.
    stored_mask
        The mask in the layout that the model now has.
    """

    entry: BundleEntry
    stored_mask: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A weight that is to be pruned.

    Attributes
    ----------
    base
        Its name in the state dict.
    layers
        The plans of its pieces; of itself where it has none.
    network
        The model's trace.
    scores
        What orders were searched by, in the layout that came in.
    moves
        What was done to the weight.
    """

    base: str
    layers: Sequence[PlannedLayer]
    network: Network
    scores: torch.Tensor
    moves: Sequence[Move]

    @property
    def rule(self) -> LayerRule:
        """The rule that it falls under."""
        return self.layers[0].rule


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A mask and the values under it.

    Attributes
    ----------
    values, mask
        In the layout of the weight that was fitted.
    stored
        The mask as the pattern lies in it.
    tiles
        The orders that the pattern's tiles keep for themselves, if any.
    """

    values: torch.Tensor
    mask: torch.Tensor
    stored: torch.Tensor
    tiles: Any


@torch.no_grad()
def fitted(
    task: Task,
    weight: torch.Tensor,
    scores: torch.Tensor,
    moves: Sequence[Move],
    inputs: Inputs | None,
) -> Fitted:
    """Return the mask of a weight and new values, by its rule's method; nothing is changed.

    Parameters
    ----------
    weight, scores, inputs
        In one layout.
    moves
        From there to the layout that the mask's pattern lies in.
    """
    rule = task.rule
    if not rule.needs_gram:
        stored, tiles = best_mask(task.layers, task.network, moved(scores, moves))
        mask = moved_back(stored, moves)
        return Fitted(under(mask, weight), mask, stored, tiles)
    if inputs is None:
        raise StateError(f"{task.base}: {rule.method} needs calibration data.")
    solid = solid_of(inputs, rule.damping)
    if rule.chooses:
        new, scores = _chosen(task, weight, moves, inputs, solid)
    else:
        new = weight
    stored, tiles = best_mask(task.layers, task.network, moved(scores, moves))
    mask = moved_back(stored, moves)
    if rule.refits:
        new = refit(weight, mask, inputs, start=under(mask, new), solid=solid)
    return Fitted(new, mask, stored, tiles)


@torch.no_grad()
def prune_tensor(
    task: Task,
    weight: torch.Tensor,
    inputs: Inputs | None,
    *,
    fresh: torch.Tensor | None = None,
    stored: bool = False,
    goal: torch.Tensor | None = None,
) -> Pruned:
    """Mask a weight that was reordered already, in place.

    Parameters
    ----------
    weight
        The parameter, in its new layout.
    inputs
        Of the layer as it came in; with `stored`, of the reordered one.
    fresh
        Scores to choose the mask by instead of those of the task; with `stored` alone.
    goal
        The dense weight to come near instead of this one; with `stored` alone.
    """
    start, moves = perf_counter(), task.moves
    dense = moved_back(weight.detach(), moves)
    if stored:
        scores = moved(task.scores, moves) if fresh is None else fresh
        own = (weight if goal is None else goal).detach().clone()
        found = fitted(task, own, scores, (), inputs)
        error = error_share(own, found.values, inputs)
        weight.copy_(found.values)
    else:
        found = fitted(task, dense, task.scores, moves, inputs)
        error = error_share(dense, found.values, inputs)
        weight.copy_(moved(found.values, moves))
    _check(task.layers, task.network, found.stored)
    mask = moved_back(found.stored, moves)
    rule = task.rule
    rows, cols, entangled = orders_of(weight.shape, task.layers[0].dim, moves)
    record = {
        "tensor": task.base,
        "shape": list(weight.shape),
        "dtype": str(weight.dtype).removeprefix("torch."),
        "axis": task.layers[0].dim,
        "pattern": str(rule.pattern),
        "sha256": fingerprint(to_numpy(dense, task.base)),
        "stored_sha256": fingerprint(to_numpy(weight, task.base)),
        "entangled": entangled,
        **({"moves": moves_as_text(moves)} if entangled else {}),
        "scores": task.layers[0].scores,
        "method": rule.method,
        "state": task.layers[0].state,
        "targets": dict(task.layers[0].eligible),
        **shares_of(task.layers, task.network, task.scores, mask),
        **({} if error is None else {"output_error": error}),
        "seconds": perf_counter() - start,
        "orders": {},
    }
    assert rule.sparse is not None
    entry = BundleEntry(task.base, rule.sparse, mask.cpu().numpy(), rows, cols, found.tiles, record)
    return Pruned(entry, found.stored)


def moved(tensor: torch.Tensor, moves: Sequence[Move]) -> torch.Tensor:
    """Return a contiguous copy of a tensor with moves applied."""
    found = tensor.clone(memory_format=torch.contiguous_format)
    for move in moves:
        move.apply_(found)
    return found


def moved_back(tensor: torch.Tensor, moves: Sequence[Move]) -> torch.Tensor:
    """Return a contiguous copy of a tensor as it was before moves."""
    found = tensor.clone(memory_format=torch.contiguous_format)
    for move in reversed(moves):
        move.inverse.apply_(found)
    return found


def best_mask(
    layers: Sequence[PlannedLayer], network: Network, scores: torch.Tensor
) -> tuple[torch.Tensor, Any]:
    """Return the best masks of a tensor's pieces for scores in storage order."""
    mask = torch.ones(scores.shape, dtype=torch.bool)
    tiles = None
    for layer in layers:
        pattern = layer.rule.sparse
        assert pattern is not None
        own = network.pick({layer.base: scores}, layer.tensor)
        values = np.ascontiguousarray(to_numpy(turned(own, layer.dim), layer.tensor))
        if isinstance(pattern, Private):
            tiles = pattern.tile_orders(values)
        kept = pattern.keep(values)
        piece = network.pick({layer.base: mask}, layer.tensor)
        piece.copy_(unturned(torch.from_numpy(kept), layer.dim))
    return mask.to(scores.device), tiles


def _chosen(
    task: Task, weight: torch.Tensor, moves: Sequence[Move], inputs: Inputs, solid: Solid
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return values of a method that chooses the mask itself, and scores whose best mask it is."""
    pattern, rule = task.rule.sparse, task.rule
    if rule.method == "alps":
        found = split(weight, solid, inputs, partial(_best, task, moves), Splitting())
        return found.values, found.scores
    assert isinstance(pattern, NM)
    method = obc if rule.method == "obc" else sparsegpt
    cols = column_order(task.base, weight.shape, task.layers[0].dim, moves)
    new, mask = method(weight, inputs, pattern.n, pattern.m, cols=cols, solid=solid)
    return new, mask.float()


def _best(task: Task, moves: Sequence[Move], scores: torch.Tensor) -> torch.Tensor:
    return moved_back(best_mask(task.layers, task.network, moved(scores, moves))[0], moves)


def column_order(
    name: str, shape: torch.Size, dim: int, moves: Sequence[Move]
) -> torch.Tensor | None:
    """Return the order of the columns that moves come to; None where they stay.

    Raises
    ------
    StateError
        Rows of the weight have column orders of their own.
    """
    if not moves:
        return None
    index = torch.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    lines = moved(index.expand(shape), moves).movedim(dim, 0).flatten(1)
    if not bool((lines == lines[:, :1]).all()):
        raise StateError(
            f"{name}: its blocks have column orders of their own, which no sweep over its columns "
            'can follow; take method = "refit" for it.'
        )
    return lines[:, 0].contiguous()


def orders_of(
    shape: torch.Size, dim: int, moves: Sequence[Move]
) -> tuple[Order | None, Order | None, bool]:
    """Return the orders of rows and columns that the moves come to, and whether that is not all."""
    found: dict[int, Order] = {}
    entangled = any(move.part is not None or len(move.dims) > 1 for move in moves)
    if entangled:
        return None, None, True
    for move in moves:
        at = move.dims[0]
        before = found.get(at, np.arange(shape[at]))
        found[at] = before[move.index]
    other = rows_dim(dim)
    return found.get(other), found.get(dim), bool(found.keys() - {dim, other})


def _check(layers: Sequence[PlannedLayer], network: Network, mask: torch.Tensor) -> None:
    for layer in layers:
        pattern = layer.rule.sparse
        own = turned(network.pick({layer.base: mask}, layer.tensor), layer.dim)
        if pattern is not None and not pattern.accepts(np.ascontiguousarray(own.cpu().numpy())):
            raise StateError(f"{layer.tensor}: its mask breaks {pattern}; please report this.")


def shares_of(
    layers: Sequence[PlannedLayer], network: Network, scores: torch.Tensor, mask: torch.Tensor
) -> dict[str, float]:
    """Return what the mask keeps of the scores, and what the best mask of the old order would."""
    total = float(scores.double().sum())
    kept = float(scores.double()[mask].sum())
    before, _ = best_mask(layers, network, scores)
    baseline = float(scores.double()[before].sum())
    scale = total if total > 0 else 1.0
    return {"retained": kept / scale, "baseline": baseline / scale, "total": total}


def error_share(dense: torch.Tensor, new: torch.Tensor, inputs: Inputs | None) -> float | None:
    """Return the error of the layer's outputs as a share of their energy, if that is known."""
    if inputs is None or inputs.gram is None:
        return None
    energy = output_error(dense, torch.zeros_like(dense), inputs)
    return output_error(dense, new, inputs) / energy if energy > 0 else 0.0
