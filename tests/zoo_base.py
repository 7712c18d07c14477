"""What a zoo model is: how it is built, what it reads, and the exact groups it has.

A group is declared as text: ``16`` is plain, ``8 in 2`` has an order in each of 2 blocks,
``4 blocks`` reorders blocks of positions. ``build`` runs under a fixed seed in float64, with norms
and running statistics that are not trivial, so that a wrong permutation shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A zoo model.

    Attributes
    ----------
    make
        Returns the module.
    inputs
        Its example inputs.
    groups
        Every group that it has, in one text, commas between.
    unread, unknown
        Whether the capture leaves parameters unread or meets operators without a rule.
    """

    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...]
    groups: str
    unread: bool = False
    unknown: bool = False

    def build(self) -> nn.Module:
        """Return the module, seeded, in float64 and evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            model = self.make().double().eval()
            stir_(model)
        return model

    @property
    def declared(self) -> list[str]:
        """The groups, sorted."""
        return sorted(text.strip() for text in self.groups.split(",") if text.strip())


class Fn(nn.Module):
    """A module whose forward is a function of itself."""

    def __init__(self, forward: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = forward

    def forward(self, *inputs: Any) -> Any:
        """Call the function."""
        return self.run(self, *inputs)


def weight(*shape: int) -> nn.Parameter:
    """Return a parameter of random numbers."""
    return nn.Parameter(torch.randn(*shape) / max(shape) ** 0.5)


@torch.no_grad()
def stir_(model: nn.Module) -> None:
    """Give vectors of norms and running statistics random positive entries."""
    saved = model.state_dict()
    tensors = [p for p in model.parameters() if p.dim() == 1 and p.numel() > 1]
    tensors += [b for name, b in model.named_buffers() if name in saved and b.is_floating_point()]
    for tensor in tensors:
        tensor.copy_(torch.rand_like(tensor) + 0.5)


ROWS = torch.arange(18, dtype=torch.float64).reshape(3, 6).sin()
TOKENS = torch.arange(60, dtype=torch.float64).reshape(2, 5, 6).sin()
IMAGE = torch.arange(384, dtype=torch.float64).reshape(2, 3, 8, 8).sin()
IDS = torch.tensor([[1, 4, 2, 8, 5], [7, 3, 6, 0, 2]])
