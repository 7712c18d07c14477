"""What a job is told to come to before it starts: groups, weights, and the way out of a pin."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pruning
from pruning.drawing import folded
from pruning.dry_run import free_outputs_hint, planned_text
from pruning.formulate import plan


class Encoder(nn.Module):
    """A residual stream that is returned, and blocks of hidden layers."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        pair = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(blocks)]
        self.stem, self.layer = nn.Linear(4, 8), nn.ModuleList(pair)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the stream."""
        value = self.stem(value)
        for block in self.layer:
            value = value + block(value)
        return value


@pytest.mark.parametrize("outputs", ["pin", "free"])
def test_weights_that_the_output_pins_are_told_of(outputs: str) -> None:
    """The dry run names --free-outputs where that lifts something, and only there."""
    network = pruning.trace(Encoder(5), torch.ones(2, 4), outputs=outputs)  # type: ignore[arg-type]
    text = planned_text(network, plan(network, "2:4"))
    assert ("5 weights are left because the model returns" in text) == (outputs == "pin")
    assert ("--free-outputs" in text) == (outputs == "pin")
    assert not free_outputs_hint(0)


def test_groups_without_effect_are_marked() -> None:
    """A pattern is sensitive to what weights read; what they only write is told apart."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    network = pruning.trace(model, torch.ones(2, 4))
    mark = "no effect on this pattern"
    assert mark not in planned_text(network, plan(network, "2:4"))
    assert mark in planned_text(network, plan(network, {"0": "2:4", "2": None}))
    assert mark not in network.summary()


def test_layers_that_are_alike_are_told_once() -> None:
    """More than three texts that differ in numbers of layers alone become one with a number."""
    network = pruning.trace(Encoder(5), torch.ones(2, 4))
    text, every = network.summary(), network.summary(every=True)
    assert "layer.0.0.weight[0]: 16 (plain), 3 tensors (and 4 more like it, of other" in text
    assert "layer.3.0.weight[0]" not in text
    assert all(str(group) in every for group in network.groups)
    assert all(str(pin) in every for pin in network.pins)
    few = pruning.trace(Encoder(3), torch.ones(2, 4))
    assert few.summary() == few.summary(every=True)
    sizes = [f"a.{n}.b: {n} items, 0.{n}" for n in range(5)]
    assert list(folded(sizes)) == sizes
