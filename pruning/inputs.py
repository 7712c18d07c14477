"""Inputs to compare a model on: the examples, random ones of their kind, and other sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from pruning.ops import tensors_in

Example: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]

#: At most so many sizes of an example are varied.
MOST_SIZES = 3


def drawn_like(example: Example, generator: torch.Generator) -> Example:
    """Return an example with random tensors of the same shapes, types and spread."""
    return _mapped(example, lambda tensor: _random(tensor, tensor.shape, generator))


def other_sizes(example: Example, generator: torch.Generator) -> Iterator[Example]:
    """Yield random examples in each of which one size is one larger, wherever it occurs.

    Sizes are those of leading dimensions first (batch, then length); which of them a model
    takes is for the caller to try.
    """
    for size in _sizes(example)[:MOST_SIZES]:
        yield _mapped(
            example,
            lambda tensor, size=size: _random(  # type: ignore[misc]
                tensor, [n + (n == size) for n in tensor.shape], generator
            ),
        )


def _sizes(example: Example) -> list[int]:
    """Return the sizes of all but the last dimensions of floats, and of all of integers."""
    found: dict[int, None] = {}
    tensors = list(tensors_in(example))
    for dim in range(max((tensor.dim() for tensor in tensors), default=0)):
        for tensor in tensors:
            last = tensor.dim() - tensor.is_floating_point()
            if dim < last and tensor.shape[dim] > 0:
                found[tensor.shape[dim]] = None
    return list(found)


def as_float64(example: Example) -> Example:
    """Return an example whose floating tensors are float64."""
    return _mapped(example, lambda t: t.double() if t.is_floating_point() else t)


def copied(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that a run may write into."""
    return copy.deepcopy((example[0], dict(example[1])))


def accepted(run: Callable[[Example], Any], examples: Sequence[Example]) -> Iterator[Example]:
    """Yield the examples that a model runs on without an error."""
    for example in examples:
        try:
            run(example)
        except Exception:  # noqa: BLE001 -- a made-up input may break any rule of the model's
            continue
        yield example


def _mapped(example: Example, change: Callable[[torch.Tensor], torch.Tensor]) -> Example:
    found: Example = pytree.tree_map(
        lambda item: change(item) if isinstance(item, torch.Tensor) else item,
        (example[0], dict(example[1])),
    )
    return found


def _random(tensor: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Return random numbers of a tensor's type, and range or spread."""
    if tensor.is_floating_point():
        spread = float(tensor.float().std()) if tensor.numel() > 1 else 1.0
        drawn = torch.randn(shape, generator=generator) * (spread or 1.0)
        return (drawn + float(tensor.float().mean())).to(tensor)
    if tensor.numel() and tensor.dtype in (torch.int64, torch.int32):
        low, high = int(tensor.min()), int(tensor.max())
        return torch.randint(low, high + 1, tuple(shape), generator=generator).to(tensor)
    return _stretched(tensor, shape)


def _stretched(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return a tensor (a mask, say) in another shape, its last entries repeated."""
    for dim, count in enumerate(shape):
        index = torch.arange(count, device=tensor.device).clamp(max=tensor.shape[dim] - 1)
        tensor = tensor.index_select(dim, index) if count else tensor
    return tensor.clone()
