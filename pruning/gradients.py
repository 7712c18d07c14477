"""Gradients over a calibration set: for Taylor scores and the diagonal of the empirical Fisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(3, 1)
    >>> batches = [torch.ones(2, 3), torch.ones(4, 3)]
    >>> found = gradients(layer, batches, lambda output, batch: output.mean())
    >>> found["weight"].total
    tensor([[2., 2., 2.]], dtype=torch.float64)
    """
    sums: dict[str, list[torch.Tensor]] = {}
    count = 0
    for found in each_gradient(model, batches, loss, names=names):
        for name, gradient in found.items():
            wide = gradient.double()
            own = sums.setdefault(name, [torch.zeros_like(wide), torch.zeros_like(wide)])
            own[0] += wide
            own[1] += wide.square()
        count += 1
    return {name: Gradients(count, total, squares) for name, (total, squares) in sums.items()}


def each_gradient(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], torch.Tensor],
    *,
    names: Iterable[str] | None = None,
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield a model's gradients batch by batch: see `gradients`."""
    bare = unwrapped(model)
    every = dict(bare.named_parameters())
    wanted = [n for n, p in every.items() if p.dim() > 1] if names is None else list(names)
    for name in wanted:
        if name not in every:
            raise unknown("parameter", name, every)
    count = 0
    for batch in batches:
        with evaluating(bare), torch.enable_grad():
            args, kwargs = as_call(batch)
            value = loss(bare(*args, **kwargs), batch)
            found = torch.autograd.grad(value, [every[n] for n in wanted], allow_unused=True)
        yield {name: _checked(grad, name, count) for name, grad in zip(wanted, found, strict=True)}
        count += 1
    if not count:
        raise CalibrationError("there are no batches to take gradients of; give at least one.")


def _checked(grad: torch.Tensor | None, name: str, batch: int) -> torch.Tensor:
    if grad is None:
        raise CalibrationError(f"{name}: the loss does not depend on it; leave it out of names=.")
    if not bool(grad.isfinite().all()):
        raise CalibrationError(f"{name}: its gradient in batch {batch} is not finite.")
    return grad.detach()
