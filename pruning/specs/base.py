"""A checkpoint as a module: its tensors under their own names, run by a spec.

A spec is the forward pass of an architecture, written over tensor names and `config.json`. It is
captured like any other model, so its groups come from the same rules, and it can be run, so what
is done to a checkpoint can be proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn

Config: TypeAlias = Mapping[str, Any]
Forward: TypeAlias = Callable[..., Any]


class Weights:
    """The tensors of a checkpoint by name, below a prefix."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], prefix: str = "") -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor."""
        return self._tensors[self._prefix + name]

    def get(self, name: str) -> torch.Tensor | None:
        """Return a tensor, or None where the checkpoint has none of that name."""
        return self._tensors.get(self._prefix + name)

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._tensors

    def below(self, prefix: str) -> Weights:
        """Return the tensors whose names go on with a prefix."""
        return Weights(self._tensors, self._prefix + prefix)

    def linear(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Apply a linear layer, behind an index of its input where the checkpoint has one."""
        order = self.get(f"{name}.order")
        if order is not None:
            value, name = value.index_select(-1, order), f"{name}.layer"
        return F.linear(value, self[f"{name}.weight"], self.get(f"{name}.bias"))

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a layer of that name."""
        return f"{name}.weight" in self or f"{name}.layer.weight" in self

    def conv1d(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Apply a layer whose weight is stored (in, out)."""
        found = value @ self[f"{name}.weight"]
        bias = self.get(f"{name}.bias")
        return found if bias is None else found + bias

    def layer_norm(self, name: str, value: torch.Tensor, eps: float) -> torch.Tensor:
        """Apply a layer norm."""
        old = f"{name}.gamma" in self  # as the first BERT files have it
        weight = self[f"{name}.{'gamma' if old else 'weight'}"]
        return F.layer_norm(
            value, weight.shape, weight, self.get(f"{name}.{'beta' if old else 'bias'}"), eps
        )

    def rms_norm(self, name: str, value: torch.Tensor, eps: float) -> torch.Tensor:
        """Apply a root-mean-square norm."""
        weight = self[f"{name}.weight"]
        return F.rms_norm(value, weight.shape, weight, eps)


class Checkpoint(nn.Module):
    """A module that holds a checkpoint's tensors under their names and runs a spec over them."""

    def __init__(
        self, tensors: Mapping[str, torch.Tensor], config: Config, forward: Forward
    ) -> None:
        super().__init__()
        self._config, self._run = config, forward
        self._names = [name for name, tensor in tensors.items() if tensor.is_floating_point()]
        orders = [name for name in tensors if name.endswith(".order")]  # of gathered inputs
        held: dict[int, nn.Parameter] = {}
        for name in self._names:
            tensor = tensors[name]
            if id(tensor) not in held:
                held[id(tensor)] = nn.Parameter(tensor, requires_grad=False)
            *path, leaf = name.split(".")
            _folder(self, path).register_parameter(leaf, held[id(tensor)])
        for name in orders:
            *path, leaf = name.split(".")
            _folder(self, path).register_buffer(leaf, tensors[name])
        self._names += orders

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the architecture."""
        named = {name: _tensor(self, name.split(".")) for name in self._names}
        return self._run(Weights(named), self._config, *inputs)


def _folder(module: nn.Module, path: list[str]) -> nn.Module:
    for part in path:
        if part not in module._modules:  # noqa: SLF001
            module.add_module(part, nn.Module())
        module = module._modules[part]  # type: ignore[assignment]  # noqa: SLF001
    return module


def _tensor(module: nn.Module, path: list[str]) -> torch.Tensor:
    for part in path[:-1]:
        module = module._modules[part]  # type: ignore[assignment]  # noqa: SLF001
    found: torch.Tensor = getattr(module, path[-1])
    return found


def heads_of(value: torch.Tensor, heads: int) -> torch.Tensor:
    """Split the last dimension into heads, before the length."""
    return value.reshape(*value.shape[:-1], heads, -1).transpose(1, 2)


def merged(value: torch.Tensor) -> torch.Tensor:
    """Lay heads side by side again."""
    return value.transpose(1, 2).flatten(2)


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: tuple[int, int], **more: Any
) -> torch.Tensor:
    """Attend with heads; several query heads may share one of keys and values."""
    own, shared = heads
    split = heads_of(query, own), heads_of(key, shared), heads_of(value, shared)
    return merged(F.scaled_dot_product_attention(*split, enable_gqa=own != shared, **more))


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda value: F.gelu(value, approximate="tanh"),
    "gelu_pytorch_tanh": lambda value: F.gelu(value, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
