"""Column orders of SmolLM2's 210 projections: stored, random, free of charge, or by a gather."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import permsearch as ps
import pruning
from permsearch.io.atomic import written_aside
from permsearch.orders import Order
from pruning.formulate import Plan, plan
from pruning.groupwise import components, search_groups
from pruning.network import Network
from pruning.reorder import moves_of

#: CPU seconds for an order; the residual stream's, which 150 weights read, gets more.
SECONDS, MORE, MANY = 0.5, 40.0, 20
IDS = (torch.arange(22) * 7 % 97 + 3).reshape(2, 11)
EVERY = "*_proj"

Orders = Mapping[str, Order]


def random_orders(weights: Mapping[str, torch.Tensor], seed: int) -> Orders:
    """Return an order for each weight, drawn at random: what gathers could do without a search."""
    rng = np.random.default_rng(seed)
    return {name: rng.permutation(weight.shape[1]) for name, weight in weights.items()}


def searched(
    model: nn.Module, pattern: str, scores: Mapping[str, np.ndarray], kind: str, path: Path
) -> Orders:
    """Return the order of each weight's columns that was searched, by the layers' names.

    Parameters
    ----------
    scores
        Importances of each weight, by its name in the state dict.
    kind
        "absorbed": one order for each group of channels, none of which costs anything at run time;
        "gathered": an order for each weight, its input being indexed at run time.
    path
        Orders are read from there, or written there.
    """
    if not path.exists():
        network = pruning.trace(model, IDS)
        gather = [EVERY] if kind == "gathered" else []
        planned = plan(network, {EVERY: pattern}, gather=gather)
        solution = dict(_solutions(network, planned, scores))
        orders: dict[str, Any] = {}
        orders |= (
            pruning.gathered_orders(network, solution) if gather else columns(network, solution)
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as aside:
            np.savez_compressed(aside, **orders)
    with np.load(path) as kept:
        return {name: kept[name] for name in kept.files}


def _solutions(
    network: Network, planned: Plan, scores: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, Order]]:
    """Yield the order of every group or gathered layer."""
    for part in components(planned.drafts)[0]:
        stop = ps.MaxCpuSeconds(SECONDS if len(part) < MANY else MORE)
        found = search_groups(network, replace(planned, drafts=tuple(part)), scores, stop=stop)
        yield from found.solution.items()


def columns(network: Network, solution: Mapping[str, Any]) -> Orders:
    """Return what the orders of groups do to the columns of each layer's weight."""
    found = {}
    for name, moves in moves_of(network, solution).items():
        if not name.endswith("_proj.weight"):
            continue
        rows, width = network.whole_shape(name)
        index = torch.arange(width).repeat(rows, 1)
        for move in moves:
            index = move.apply(index)
        if not torch.equal(index[0], torch.arange(width)):
            found[name.removesuffix(".weight")] = index[0].numpy()
    return found


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of the weights that are pruned, by their layers' names."""
    return {
        name.removesuffix(".weight"): tensor.detach().clone()
        for name, tensor in model.named_parameters()
        if name.endswith("_proj.weight")
    }
