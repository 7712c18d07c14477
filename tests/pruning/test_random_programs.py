"""Random programs: whatever operators are strung together, orders of all groups change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import permsearch as ps
import pruning
from pruning.verify import distance
from tests.zoo_base import TOKENS, stir_

#: What a step adds to a program: the width it has, and how it is computed from earlier values.
Made: TypeAlias = tuple[int, Callable[..., torch.Tensor]]
MOST = 24


class Program(nn.Module):
    """A random chain of steps on values of shape (2, 5, width), read by linear heads."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.weights = nn.ParameterList()
        self.widths, self.steps = [6], []  # type: ignore[var-annotated]
        while len(self.steps) < steps:
            source = len(self.widths) - 1
            if self.random.random() < 0.4:
                source = self.random.randrange(len(self.widths))
            other = self.random.randrange(len(self.widths))
            kind = self.random.choice(STEPS)
            made = kind(self, self.widths[source], self.widths[other])
            if made is not None and made[0] <= MOST:
                self.widths.append(made[0])
                self.steps.append((kind.__name__, source, other, made[1]))
        self.read = range(max(1, len(self.widths) - 3), len(self.widths))
        self.heads = nn.ModuleList(nn.Linear(self.widths[at], 3) for at in self.read)

    def weight(self, *shape: int) -> Callable[[], torch.Tensor]:
        """Add a parameter; return how to get it."""
        at = len(self.weights)
        self.weights.append(nn.Parameter(torch.randn(shape) / max(shape) ** 0.5))
        return lambda: self.weights[at]

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run all steps and add up what the heads read."""
        values = [value]
        for _, source, other, run in self.steps:
            values.append(run(values[source], values[other]))
        return sum(head(values[at]) for head, at in zip(self.heads, self.read, strict=True))  # type: ignore[return-value]


def halves(value: torch.Tensor) -> torch.Tensor:
    """Return two heads."""
    return value.view(*value.shape[:-1], 2, -1)


def linear(p: Program, width: int, _: int) -> Made:
    """Apply a weight and a bias."""
    out = p.random.choice([4, 6, 8, 12])
    weight, bias = p.weight(out, width), p.weight(out)
    return out, lambda x, y: F.linear(x, weight(), bias())


def activation(p: Program, width: int, _: int) -> Made:
    """Bend."""
    bend = p.random.choice([F.relu, torch.tanh, F.gelu, torch.sigmoid])
    return width, lambda x, y: bend(x)


def together(p: Program, width: int, other: int) -> Made | None:
    """Combine two values entry by entry."""
    join = p.random.choice([torch.add, torch.mul, torch.maximum])
    return (width, lambda x, y: join(x, y)) if width == other else None


def end_to_end(p: Program, width: int, other: int) -> Made:
    """Concatenate."""
    return width + other, lambda x, y: torch.cat([x, y], -1)


def piece(p: Program, width: int, _: int) -> Made | None:
    """Take a run of channels."""
    start = p.random.randrange(width - 1)
    end = p.random.randrange(start + 1, width + 1)
    return end - start, lambda x, y: x[..., start:end]


def norm(p: Program, width: int, _: int) -> Made | None:
    """Normalise all channels, or each half."""
    scale = p.weight(width)
    if p.random.random() < 0.5 or width % 2:
        return width, lambda x, y: F.layer_norm(x, (width,), scale())
    return width, lambda x, y: F.group_norm(x.transpose(1, 2), 2, scale()).transpose(1, 2)


def soft(p: Program, width: int, _: int) -> Made:
    """Take a softmax over channels or time."""
    dim = p.random.choice([1, 2])
    return width, lambda x, y: x.softmax(dim)


def mixed_heads(p: Program, width: int, _: int) -> Made | None:
    """Mix two heads."""
    weight = p.weight(2, 2)
    return None if width % 2 else (
        width, lambda x, y: torch.einsum("bthd,hg->btgd", halves(x), weight()).flatten(2)
    )  # fmt: skip


def own_weights(p: Program, width: int, _: int) -> Made | None:
    """Give each of two heads a weight of its own."""
    if width % 2:
        return None
    weight = p.weight(2, width // 2, 3)
    return 6, lambda x, y: torch.einsum("bthd,hdo->btho", halves(x), weight()).flatten(2)


def summed_heads(p: Program, width: int, _: int) -> Made | None:
    """Add up two heads, or the channels of pairs."""
    major = p.random.random() < 0.5
    return None if width % 2 else (
        width // 2,
        lambda x, y: halves(x).sum(-2) if major else x.view(2, 5, -1, 2).amax(-1),
    )  # fmt: skip


def over_time(p: Program, width: int, _: int) -> Made:
    """Mix the positions in time."""
    weight = p.weight(5, 5)
    return width, lambda x, y: F.linear(x.transpose(1, 2), weight()).transpose(1, 2)


def products(p: Program, width: int, other: int) -> Made:
    """Flatten all products of two values' channels."""
    return width * other, lambda x, y: (x[..., :, None] * y[..., None, :]).flatten(2)


def attention(p: Program, width: int, other: int) -> Made | None:
    """Attend from one value to another, in one, two or four heads."""
    heads = p.random.choice([1, 2, 4])
    if width != other or width % heads:
        return None

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        query, key = (v.view(2, 5, heads, -1).transpose(1, 2) for v in (x, y))
        return F.scaled_dot_product_attention(query, key, key).transpose(1, 2).reshape(2, 5, -1)

    return width, run


def there_and_back(p: Program, width: int, _: int) -> Made:
    """Use a weight and its own transpose, one after the other or as their product."""
    weight = p.weight(width, 4)
    if p.random.random() < 0.5:
        return width, lambda x, y: x @ weight() @ weight().t()
    return width, lambda x, y: x @ (weight() @ weight().t())


def copies(p: Program, width: int, _: int) -> Made:
    """Repeat whole, or channel by channel."""
    whole = p.random.random() < 0.5
    return 2 * width, lambda x, y: x.repeat(1, 1, 2) if whole else x.repeat_interleave(2, -1)


def shuffled(p: Program, width: int, _: int) -> Made | None:
    """Exchange the two factors of the channels."""
    return None if width % 4 else (
        width, lambda x, y: x.view(2, 5, 4, -1).transpose(2, 3).reshape(2, 5, width)
    )  # fmt: skip


def convolved(p: Program, width: int, _: int) -> Made:
    """Convolve over time, each channel on its own or all together."""
    groups = p.random.choice([1, width])
    weight = p.weight(width, width // groups, 3)
    return width, lambda x, y: F.conv1d(
        x.transpose(1, 2), weight(), padding=1, groups=groups
    ).transpose(1, 2)


def gated(p: Program, width: int, _: int) -> Made | None:
    """Gate one half by the other."""
    return None if width % 2 else (width // 2, lambda x, y: F.glu(x, -1))


STEPS: list[Any] = [
    linear, linear, linear, activation, together, together, end_to_end, piece, norm, soft,
    mixed_heads, own_weights, summed_heads, over_time, products, attention, there_and_back, copies,
    shuffled, convolved, gated,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_random_orders_of_random_programs(seed: int) -> None:
    """The outputs agree to 1e-9, and every operator has a rule."""
    torch.manual_seed(seed)
    model = Program(seed, 8).double().eval()
    stir_(model)
    network = pruning.trace(model, TOKENS, ignore_unread=["*"])
    assert network.unknown == {}
    before = model(TOKENS)
    solution = ps.random_solution(network.problem(), seed=seed) if network.groups else {}
    pruning.permute_(model, solution, network=network, verify=False)
    assert distance(before, model(TOKENS)) <= 1e-9, [step[:3] for step in model.steps]
