"""Gradients over a calibration set: for Taylor scores and the diagonal of the empirical Fisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from permsearch.errors import unknown
from pruning.calibrate import as_call
from pruning.capture import evaluating, unwrapped
from pruning.errors import CalibrationError


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Sums over batches, float64, of a weight's shape.

    Attributes
    ----------
    batches
        How many were summed.
    total
        The sum of the gradients: `pruning.scores.taylor` takes it.
    squares
        The sum of their squares: the diagonal of the empirical Fisher matrix, times `batches`.
    """

    batches: int
    total: torch.Tensor
    squares: torch.Tensor


def gradients(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], torch.Tensor],
    *,
    names: Iterable[str] | None = None,
) -> dict[str, Gradients]:
    """Return the sums of a model's gradients over batches; its own gradients stay as they are.

    Parameters
    ----------
    batches
        What the model is called with.
    loss
        (output, batch) to a scalar.
    names
        Parameters by name; None: all with rows and columns.

    Raises
    ------
    CalibrationError
        No batches, a loss or gradient that is not finite, or a parameter that the loss does not
        depend on.
    """
    bare = unwrapped(model)
    every = dict(bare.named_parameters())
    wanted = [n for n, p in every.items() if p.dim() > 1] if names is None else list(names)
    for name in wanted:
        if name not in every:
            raise unknown("parameter", name, every)
    sums = {n: [torch.zeros_like(every[n], dtype=torch.float64) for _ in range(2)] for n in wanted}
    count = 0
    with evaluating(bare), torch.enable_grad():
        for batch in batches:
            args, kwargs = as_call(batch)
            value = loss(bare(*args, **kwargs), batch)
            found = torch.autograd.grad(value, [every[n] for n in wanted], allow_unused=True)
            for name, grad in zip(wanted, found, strict=True):
                _add(sums[name], grad, name, count)
            count += 1
    if not count:
        raise CalibrationError("there are no batches to take gradients of; give at least one.")
    return {name: Gradients(count, total, squares) for name, (total, squares) in sums.items()}


def _add(sums: list[torch.Tensor], grad: torch.Tensor | None, name: str, batch: int) -> None:
    if grad is None:
        raise CalibrationError(f"{name}: the loss does not depend on it; leave it out of names=.")
    wide = grad.detach().double()
    if not bool(wide.isfinite().all()):
        raise CalibrationError(f"{name}: its gradient in batch {batch} is not finite.")
    sums[0] += wide
    sums[1] += wide.square()
