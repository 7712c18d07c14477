"""Layers that read the same tensor share its sums: made once, held once, the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import pruning
from pruning.statistics import Inputs, Sums


class Reads(nn.Module):
    """Three layers, called in a way of one's own."""

    def __init__(self, way: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 4) for _ in range(3))
        self.way, self.calls = way, 0

    def forward(self, x: torch.Tensor) -> Any:
        """Call the layers."""
        self.calls += 1
        return self.way(self, x)


def twice(net: Any, x: torch.Tensor) -> Any:
    """Have one layer called twice with one tensor, the others once."""
    return net.q(x), net.q(x), net.k(x), net.v(x)


def changed(net: Any, x: torch.Tensor) -> Any:
    """Write into the tensor between two layers."""
    x = x.clone()
    return net.q(x), net.k(x.mul_(2)), net.v(x)


def parted(net: Any, x: torch.Tensor) -> Any:
    """Go separate ways from the second batch on."""
    return net.q(x), net.v(x), net.k(x if net.calls == 1 else -x)


def reused(net: Any, x: torch.Tensor) -> Any:
    """Read tensors that lie where one that is gone lay."""
    return net.q(x + 1), net.k(x + 2), net.v(x + 3)


def views(net: Any, x: torch.Tensor) -> Any:
    """Read views of one tensor: all of it, twice, and a part."""
    return net.q(x.view(-1, 6)), net.k(x.view(-1, 6)), net.v(x[:2])


def same(net: Any, x: torch.Tensor) -> Any:
    """Read one tensor, as queries, keys and values do."""
    return net.q(x), net.k(x), net.v(x)


BATCHES = list(torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(3)))
SHARED = {same: "qkv", twice: "kv", changed: "kv", parted: "qv", reused: "", views: "qk"}


def collected(way: Callable[..., Any], names: str = "qkv", **more: Any) -> dict[str, Inputs]:
    """Return the statistics of some of the layers."""
    wanted = [f"{name}.weight" for name in names]
    return pruning.calibrate(Reads(way), BATCHES, names=wanted, gram=True, **more)


@pytest.mark.parametrize("way", SHARED, ids=lambda way: way.__name__)
def test_sums_are_those_of_each_layer_alone(way: Callable[..., Any]) -> None:
    """Rows, squares and Gram matrices are bit for bit what a layer gets without the others."""
    found = collected(way)
    for name in "qkv":
        alone = collected(way, name)[f"{name}.weight"]
        own = found[f"{name}.weight"]
        assert own.rows == alone.rows
        assert torch.equal(own.squares, alone.squares)
        assert own.gram is not None
        assert alone.gram is not None
        assert torch.equal(own.gram, alone.gram)


@pytest.mark.parametrize("way", SHARED, ids=lambda way: way.__name__)
def test_one_matrix_for_one_input(way: Callable[..., Any]) -> None:
    """Layers with the same inputs all along hold the same tensors, others do not."""
    held: dict[int, str] = {}
    for name, inputs in collected(way).items():
        held[id(inputs.gram)] = held.get(id(inputs.gram), "") + name[0]
    together = [names for names in held.values() if len(names) > 1]
    assert together == ([SHARED[way]] if SHARED[way] else [])


def test_masks_and_matrices_asked_for_keep_layers_apart() -> None:
    """Sums without a Gram matrix are none of a layer's with one; masks hold for all that share."""
    model = Reads(same)
    found = pruning.calibrate(model, BATCHES, gram=["q.weight", "v.weight"])
    assert found["k.weight"].gram is None
    assert found["q.weight"].gram is found["v.weight"].gram
    assert torch.equal(found["k.weight"].squares, found["q.weight"].squares)
    first = torch.tensor([[True, False, True, False, True]])
    found = collected(same, rows=lambda _: first)
    assert found["q.weight"].rows == 9
    assert found["q.weight"].gram is found["k.weight"].gram


def test_products_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers that read one tensor cost the products of one."""
    made = []
    real = Sums.add

    def add(self: Sums, values: torch.Tensor) -> None:
        made.append(self.name)
        real(self, values)

    monkeypatch.setattr(Sums, "add", add)
    collected(same)
    assert made == ["q.weight"] * 3
    made.clear()
    collected(reused)
    assert len(made) == 9


def test_blocks_share_too() -> None:
    """Calibration block by block gives layers of one input one matrix."""
    model = nn.Sequential(Reads(lambda net, x: net.q(x) + net.k(x)), nn.Linear(4, 4))
    stages = pruning.calibrate_blocks(model, BATCHES, blocks=["0"], gram=True)
    inputs = next(stage.inputs for stage in stages if stage.name == "0")
    assert inputs["0.q.weight"].gram is inputs["0.k.weight"].gram
