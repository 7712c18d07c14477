"""One weight: its mask in the order it is stored in, its new values, and the record of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from permsearch.arrays import to_numpy
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.orders import Order
from permsearch.patterns import NM, Private
from pruning.errors import StateError
from pruning.layers import turned, unturned
from pruning.network import Network
from pruning.plan import PlannedLayer
from pruning.reorder import Move
from pruning.statistics import Inputs
from pruning.update import output_error, refit, sparsegpt


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


@torch.no_grad()
def prune_tensor(
    base: str,
    weight: torch.Tensor,
    layers: Sequence[PlannedLayer],
    network: Network,
    scores: torch.Tensor,
    moves: Sequence[Move],
    statistics: Mapping[str, Inputs],
) -> Pruned:
    """Mask a weight that was reordered already, in place.

    Parameters
    ----------
    weight
        The parameter, in its new layout.
    layers
        The plans of its pieces; of itself where it has none.
    scores
        In the layout that came in.
    moves
        What was done to the weight.
    """
    dense, rule, inputs = _back(weight.detach(), moves), layers[0].rule, statistics.get(base)
    stored, tiles = best_mask(layers, network, _moved(scores, moves))
    rows, cols, entangled = _orders(weight.shape, layers[0].dim, moves)
    mask = _back(stored, moves)
    new = torch.where(mask, dense, dense.new_zeros(()))
    if "sparsegpt" in rule.method:
        new, mask = _swept(dense, rule.sparse, inputs, cols, rule.damping, base)
        stored = _moved(mask, moves)
    if "refit" in rule.method:
        assert inputs is not None
        new = refit(dense, mask, inputs, rule.damping)
    _check(layers, network, stored)
    sha256 = fingerprint(to_numpy(dense, base))
    weight.copy_(_moved(new, moves))
    record = {
        "tensor": base,
        "shape": list(weight.shape),
        "dtype": str(weight.dtype).removeprefix("torch."),
        "axis": layers[0].dim,
        "pattern": str(rule.pattern),
        "sha256": sha256,
        "stored_sha256": fingerprint(to_numpy(weight, base)),
        "entangled": entangled,
        "scores": layers[0].scores,
        "method": rule.method,
        "state": layers[0].state,
        **_shares(layers, network, scores, mask),
        **_error(dense, new, inputs),
        "orders": {},
    }
    assert rule.sparse is not None
    entry = BundleEntry(base, rule.sparse, mask.cpu().numpy(), rows, cols, tiles, record)
    return Pruned(entry, stored)


def _moved(tensor: torch.Tensor, moves: Sequence[Move]) -> torch.Tensor:
    found = tensor.clone(memory_format=torch.contiguous_format)
    for move in moves:
        move.apply_(found)
    return found


def _back(tensor: torch.Tensor, moves: Sequence[Move]) -> torch.Tensor:
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


def _swept(
    dense: torch.Tensor,
    pattern: Any,
    inputs: Inputs | None,
    cols: Order | None,
    damping: float,
    name: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    assert isinstance(pattern, NM)
    if inputs is None:
        raise StateError(f"{name}: SparseGPT needs calibration data.")
    order = None if cols is None else torch.from_numpy(np.array(cols))
    return sparsegpt(dense, inputs, pattern.n, pattern.m, damping=damping, cols=order)


def _orders(
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
    other = 1 - dim if dim < 2 else 0
    return found.get(other), found.get(dim), bool(found.keys() - {dim, other})


def _check(layers: Sequence[PlannedLayer], network: Network, mask: torch.Tensor) -> None:
    for layer in layers:
        pattern = layer.rule.sparse
        own = turned(network.pick({layer.base: mask}, layer.tensor), layer.dim)
        if pattern is not None and not pattern.accepts(np.ascontiguousarray(own.cpu().numpy())):
            raise StateError(f"{layer.tensor}: its mask breaks {pattern}; please report this.")


def _shares(
    layers: Sequence[PlannedLayer], network: Network, scores: torch.Tensor, mask: torch.Tensor
) -> dict[str, float]:
    """Return what the mask keeps of the scores, and what the best mask of the old order would."""
    total = float(scores.double().sum())
    kept = float(scores.double()[mask].sum())
    before, _ = best_mask(layers, network, scores)
    baseline = float(scores.double()[before].sum())
    scale = total if total > 0 else 1.0
    return {"retained": kept / scale, "baseline": baseline / scale, "total": total}


def _error(dense: torch.Tensor, new: torch.Tensor, inputs: Inputs | None) -> dict[str, float]:
    """Return the error of the layer's outputs as a share of their energy."""
    if inputs is None or inputs.gram is None:
        return {}
    energy = output_error(dense, torch.zeros_like(dense), inputs)
    return {"output_error": output_error(dense, new, inputs) / energy if energy > 0 else 0.0}
