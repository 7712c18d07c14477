"""How to get at the inputs of each kind of layer, as rows of the features its weight reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

#: (module, arguments, keyword arguments) to values of shape (blocks, rows, features).
Look: TypeAlias = Callable[[Any, Sequence[Any], Mapping[str, Any]], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Probe:
    """A weight of a module whose inputs a hook can see.

    Attributes
    ----------
    leaf
        Name of the parameter within its module.
    axis
        Dimension of the weight along which its inputs lie.
    correlated
        Whether a Gram matrix of the features describes the layer.
    """

    leaf: str
    look: Look
    axis: int = 1
    correlated: bool = True

    @property
    def plain(self) -> bool:
        """Whether it sees the layer's input as it is, row by row, whatever the layer."""
        return self.look is _rows


def probes(module: nn.Module) -> Iterator[Probe]:
    """Yield what hooks can see of one module."""
    if isinstance(module, nn.MultiheadAttention):
        yield from _attention(module)
    elif isinstance(module, nn.RNNBase):
        for suffix in ("", "_reverse") if module.bidirectional else ("",):
            yield Probe(f"weight_ih_l0{suffix}", _sequence)
    elif isinstance(module, nn.Linear):
        yield Probe("weight", _rows)
    elif isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        yield Probe("weight", _transposed, axis=0, correlated=False)
    elif isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        yield Probe("weight", _patches)
    elif _is_turned_linear(module):
        yield Probe("weight", _rows, axis=0)


def _is_turned_linear(module: nn.Module) -> bool:
    """Whether it is the linear layer of GPT-2, which keeps its weight as (in, out)."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def read(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return the tensor that a layer is called with, the first of them."""
    found = args[0] if args else next(iter(kwargs.values()))
    if isinstance(found, nn.utils.rnn.PackedSequence):
        found = found.data
    assert isinstance(found, torch.Tensor)
    return found


def _rows(_: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    value = read(args, kwargs)
    return value.reshape(1, -1, value.shape[-1])


_sequence = _rows


def _attention(module: nn.MultiheadAttention) -> Iterator[Probe]:
    """Yield the projections of queries, keys and values; what leads out is seen elsewhere."""
    names = ("query", "key", "value")

    def one(index: int) -> Look:
        def look(_: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
            value: torch.Tensor = args[index] if index < len(args) else kwargs[names[index]]
            return value.reshape(1, -1, value.shape[-1])

        return look

    def packed(of: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
        found = [one(index)(of, args, kwargs) for index in range(3)]
        rows = min(value.shape[1] for value in found)  # keys may be more than queries
        return torch.cat([value[:, :rows] for value in found])

    if module._qkv_same_embed_dim:  # noqa: SLF001 -- what its own forward goes by
        yield Probe("in_proj_weight", packed)
    else:
        for index, leaf in enumerate(("q_proj_weight", "k_proj_weight", "v_proj_weight")):
            yield Probe(leaf, one(index))


def _patches(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return the patches that a convolution's kernel meets, group by group."""
    value = read(args, kwargs)
    dims = len(module.kernel_size)
    value = value if value.dim() == dims + 2 else value[None]
    value = _padded(module, value)
    for dim, (kernel, step, gap) in enumerate(
        zip(module.kernel_size, module.stride, module.dilation, strict=True)
    ):
        value = value.unfold(2 + dim, gap * (kernel - 1) + 1, step)[..., ::gap]
    batch, channels = value.shape[:2]
    spots = value.shape[2 : 2 + dims].numel()
    taps = value.shape[2 + dims :].numel()
    value = value.reshape(batch, module.groups, channels // module.groups, spots, taps)
    return value.permute(1, 0, 3, 2, 4).reshape(module.groups, batch * spots, -1)


def _padded(module: Any, value: torch.Tensor) -> torch.Tensor:
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    sides = list(module._reversed_padding_repeated_twice)  # noqa: SLF001 -- as its forward pads
    return functional.pad(value, sides, mode=mode) if any(sides) else value


def _transposed(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    """Return a transposed convolution's inputs, each repeated for every tap that multiplies it."""
    value = read(args, kwargs)
    dims = len(module.kernel_size)
    value = value if value.dim() == dims + 2 else value[None]
    taps = torch.Size(module.kernel_size).numel()
    rows = value.movedim(1, -1).reshape(1, -1, value.shape[1])
    return rows.repeat_interleave(taps, -1)
