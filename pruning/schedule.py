"""When masks come, while a model trains: pure functions of the step, and SR-STE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from permsearch.errors import PermsearchError
from permsearch.patterns import Pattern
from pruning.layers import turned, unturned
from pruning.masked import put_on, take_off


class ScheduleError(PermsearchError, ValueError):
    """A schedule's steps or shares do not fit together."""


@dataclass(frozen=True, slots=True)
class Cubic:
    """Density that falls from `start` to `final` along a cube.

    (Zhu & Gupta, "To prune, or not to prune", 2017.)

    Parameters
    ----------
    begin, end
        Steps between which it falls.
    final, start
        Densities, 0 < final <= start <= 1.
    every
        Steps between changes.

    Examples
    --------
    >>> schedule = Cubic(begin=10, end=110, final=0.5, every=50)
    >>> [round(schedule.density(step), 4) for step in (0, 10, 60, 99, 110, 500)]
    [1.0, 1.0, 0.5625, 0.5625, 0.5, 0.5]
    """

    begin: int
    end: int
    final: float
    start: float = 1.0
    every: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.begin < self.end or self.every < 1:
            raise ScheduleError(
                f"steps must be 0 <= begin < end and every >= 1, got {self.begin}, {self.end} and "
                f"{self.every}."
            )
        if not 0 < self.final <= self.start <= 1:
            raise ScheduleError(
                f"densities must be 0 < final <= start <= 1, got {self.final} and {self.start}."
            )

    def density(self, step: int) -> float:
        """Return the density from a step on."""
        if step >= self.end:
            return self.final
        done = max(0, step - self.begin) // self.every * self.every
        left = 1 - min(1.0, done / (self.end - self.begin))
        return self.final + (self.start - self.final) * left**3

    def changes(self, step: int) -> bool:
        """Whether the density changes at a step."""
        return step > 0 and self.density(step) != self.density(step - 1)


class _StraightThrough(torch.autograd.Function):
    """Masks forward; backward, the gradient passes, and dropped weights are drawn to zero."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, mask: torch.Tensor, decay: float) -> torch.Tensor:
        """Return the masked weight."""
        ctx.save_for_backward(weight, mask)
        ctx.decay = decay
        return torch.where(mask, weight, weight.new_zeros(()))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradient for the dense weight."""
        weight, mask = ctx.saved_tensors
        drawn = torch.where(mask, weight.new_zeros(()), weight)
        return grads[0] + ctx.decay * drawn, None, None


class SparseRefined(nn.Module):
    """A parametrization that masks anew at every step: SR-STE, for training from scratch.

    (Zhou et al., "Learning N:M Fine-grained Structured Sparse Neural Networks From Scratch",
    ICLR 2021.) Dense weights are trained through the mask, and those that are dropped just now
    decay, so that masks settle. In evaluation the last mask stays.

    Parameters
    ----------
    pattern
        Any pattern; masks are its best ones for the weights' magnitudes.
    shape
        The weight's shape.
    decay
        The paper's lambda.
    dim
        Dimension along which the weight's inputs lie.
    """

    mask: torch.Tensor

    def __init__(
        self, pattern: Pattern, shape: tuple[int, ...], *, decay: float = 2e-4, dim: int = 1
    ) -> None:
        super().__init__()
        pattern.check(tuple(turned(torch.empty(shape, device="meta"), dim).shape))
        self.pattern, self.decay, self.dim = pattern, decay, dim
        self.register_buffer("mask", torch.zeros(shape, dtype=torch.bool))
        self.fresh = True

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the weight under its best mask."""
        if self.training or self.fresh:
            size = turned(weight.detach().float().abs(), self.dim).contiguous().cpu().numpy()
            kept = unturned(torch.from_numpy(self.pattern.keep(size)), self.dim)
            self.mask.copy_(kept)
            self.fresh = False
        found: torch.Tensor = _StraightThrough.apply(weight, self.mask.clone(), self.decay)  # type: ignore[no-untyped-call]
        return found

    def right_inverse(self, weight: torch.Tensor) -> torch.Tensor:
        """Return what is stored when the weight is assigned."""
        return weight


def attach_sr_ste_(
    model: nn.Module, patterns: Mapping[str, Pattern], *, decay: float = 2e-4
) -> None:
    """Train weights through masks that are chosen anew at every step, in place.

    Parameters
    ----------
    patterns
        By the weights' names in the state dict.

    Raises
    ------
    PatternError
        A weight cannot carry its pattern; nothing was changed.

    Examples
    --------
    >>> from torch import nn
    >>> from permsearch.patterns import parse_pattern
    >>> model = nn.Sequential(nn.Linear(8, 4))
    >>> attach_sr_ste_(model, {"0.weight": parse_pattern("2:4")})
    >>> int((model[0].weight != 0).sum())
    16
    """
    made = {}
    for name, pattern in patterns.items():
        weight = model.get_parameter(name)
        made[name] = SparseRefined(pattern, tuple(weight.shape), decay=decay).to(weight.device)
    for name, each in made.items():
        prefix, _, leaf = name.rpartition(".")
        put_on(model.get_submodule(prefix), leaf, each)


def settle_sr_ste_(model: nn.Module) -> dict[str, torch.Tensor]:
    """End training through changing masks: fix the last ones, and return them.

    The weights are masked for good: attach the masks with `pruning.attach_masks_` to train on.

    Examples
    --------
    >>> from torch import nn
    >>> from permsearch.patterns import parse_pattern
    >>> model = nn.Sequential(nn.Linear(8, 4))
    >>> attach_sr_ste_(model, {"0.weight": parse_pattern("2:4")})
    >>> masks = settle_sr_ste_(model)  # after training
    >>> bool((model[0].weight[~masks["0.weight"]] == 0).all())
    True
    """
    found = {}
    for prefix, module in list(model.named_modules()):
        chains: Any = getattr(module, "parametrizations", None)
        for leaf in list(chains or ()):
            own = [each for each in chains[leaf] if isinstance(each, SparseRefined)]
            if own:
                own[0].eval()
                found[f"{prefix}.{leaf}" if prefix else leaf] = own[0].mask.clone()
                take_off(module, leaf)
    return found
