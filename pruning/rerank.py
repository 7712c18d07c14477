"""Of several orders, the one whose mask changes a layer's outputs least: no forward passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from permsearch.arrays import to_numpy
from permsearch.orders import Order, as_order
from permsearch.patterns import Pattern
from pruning.errors import StateError
from pruning.statistics import Inputs
from pruning.update import output_error, refit


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """An order with what it comes to.

    Attributes
    ----------
    order
        Position -> old column; None: as stored.
    mask
        In the layout of the weight, true = kept.
    error
        tr((W - V) H (W - V)^T) of the masked (or refitted) weight V.
    retained
        The sum of the scores that the mask keeps.
    """

    order: Order | None
    mask: torch.Tensor
    error: float
    retained: float


def rerank(
    weight: torch.Tensor,
    scores: torch.Tensor,
    orders: Sequence[Any],
    pattern: Pattern,
    inputs: Inputs,
    *,
    method: Literal["mask", "refit"] = "mask",
) -> list[Ranked]:
    """Return column orders from the least output error to the largest; ties as they came.

    Parameters
    ----------
    scores
        What masks are chosen by, of the weight's shape.
    orders
        Orders of the columns; None stands for the stored one.
    inputs
        With Gram matrices.
    method
        Whether what is kept is refitted before it is judged.

    Raises
    ------
    StateError
        The weight's columns do not lie along its dimension 1.
    """
    if inputs.axis != 1:
        raise StateError(f"{inputs.name}: its inputs do not lie along dimension 1.")
    found = []
    for given in orders:
        order = None if given is None else as_order(given, weight.shape[1], "a column order")
        mask = _mask(scores, order, pattern)
        if method == "refit":
            new = refit(weight, mask, inputs)
        else:
            new = torch.where(mask, weight.detach(), weight.new_zeros(()))
        kept = float(scores.double()[mask].sum())
        found.append(Ranked(order, mask, output_error(weight, new, inputs), kept))
    return sorted(found, key=lambda each: each.error)


def _mask(scores: torch.Tensor, order: Order | None, pattern: Pattern) -> torch.Tensor:
    values = to_numpy(scores)
    if order is None:
        return torch.from_numpy(pattern.keep(np.ascontiguousarray(values)))
    stored = pattern.keep(np.ascontiguousarray(values[:, order]))
    mask = np.empty_like(stored)
    mask[:, order] = stored
    return torch.from_numpy(mask)
