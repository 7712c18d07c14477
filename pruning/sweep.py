"""The sweep over columns that SparseGPT and the compensation of a mask are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from pruning.curvature import Damped, upper_of

#: (first position of a group, losses of its columns) to what is kept of it.
Choose: TypeAlias = Callable[[int, torch.Tensor], torch.Tensor]


def feature_order(channels: int, features: int, cols: torch.Tensor | None = None) -> torch.Tensor:
    """Return the features tap after tap, the channels of each in the order given."""
    taps = features // channels
    one = torch.arange(channels) if cols is None else torch.as_tensor(cols)
    return (one[None, :] * taps + torch.arange(taps)[:, None]).reshape(-1)


def best_of_group(n: int) -> Choose:
    """Return what keeps the n columns of the largest losses of each group."""

    def choose(_: int, losses: torch.Tensor) -> torch.Tensor:
        top = torch.argsort(losses, dim=1, descending=True, stable=True)[:, :n]
        return torch.zeros_like(losses, dtype=torch.bool).scatter_(1, top, value=True)

    return choose


def swept(
    solid: Damped,
    matrix: torch.Tensor,
    order: torch.Tensor | None,
    choose: Choose,
    *,
    step: int = 1,
    block: int = 128,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Zero columns one after another, pushing each error to the columns that are still to come.

    Parameters
    ----------
    order
        Position -> column; as stored without it.
    step
        Columns of a group.
    block
        Columns whose errors reach the rest of the matrix in one product.

    Returns
    -------
    matrix, mask
        In the order that came in.
    """
    features = matrix.shape[1]
    order = torch.arange(features) if order is None else order
    upper = upper_of(solid.inverse[order][:, order])
    prices = upper.diagonal().square()
    values, kept = matrix[:, order].clone(), torch.ones_like(matrix, dtype=torch.bool)
    block = -(-block // step) * step
    for first in range(0, features, block):
        last = min(first + block, features)
        errors = torch.zeros_like(values[:, first:last])
        for at in range(first, last):
            if at % step == 0:
                group = slice(at, min(at + step, features))
                kept[:, group] = choose(at, values[:, group].square() / prices[group])
            error = torch.where(kept[:, at], 0.0, values[:, at]) / upper[at, at]
            values[:, at:last] -= error[:, None] * upper[at, at:last]
            errors[:, at - first] = error
        values[:, last:] -= errors @ upper[first:last, last:]
    back = torch.argsort(order)
    return (values * kept)[:, back], kept[:, back]
