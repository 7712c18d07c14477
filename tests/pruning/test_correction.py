"""Layers fitted to what they put out in the dense net, on the inputs of the pruned net."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import pruning
from pruning.calibrate import calibrate
from pruning.correction import corrected
from pruning.errors import CalibrationError
from pruning.layerwise import calibrate_blocks
from pruning.recipe import Recipe
from pruning.statistics import Inputs


class Block(nn.Module):
    """Two layers on one input, and one behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 12), nn.Linear(8, 12)
        self.down = nn.Linear(12, 8)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run it beside the input."""
        found: torch.Tensor = value + self.down(self.left(value).sigmoid() * self.right(value))
        return found


def net() -> nn.Sequential:
    """Return four blocks between two layers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), *(Block() for _ in range(4)), nn.Linear(8, 3)).eval()


def data(seed: int = 1, rows: int = 600) -> torch.Tensor:
    """Return inputs that go along with one another."""
    dice = torch.Generator().manual_seed(seed)
    mixing = torch.eye(8) + torch.randn(8, 8, generator=torch.Generator().manual_seed(9)) / 2
    return torch.randn(rows, 8, generator=dice) @ mixing


def reads(model: nn.Module, value: torch.Tensor, name: str) -> torch.Tensor:
    """Return what a layer reads in a plain run."""
    seen = []
    module = model.get_submodule(name.removesuffix(".weight"))
    handle = module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        model(value)
    handle.remove()
    return seen[0].double()


def test_turns_see_the_net_as_it_is_beside_the_dense_one() -> None:
    """Each turn's products are those of plain runs of both nets, weights changed on the way."""
    model = net()
    dense, met = copy.deepcopy(model), []
    for stage in calibrate_blocks(model, data().split(200), gram=True, paired=True):
        for name, inputs in stage.inputs.items():
            x, y = reads(dense, data(), name), reads(model, data(), name)
            assert torch.allclose(inputs.gram[0], y.T @ y, rtol=1e-4, atol=1e-3)
            if stage.name:
                assert torch.allclose(inputs.cross[0], x.T @ y, rtol=1e-4, atol=1e-3)
        if stage.name:
            met.append([name.split(".")[1] for name in stage.inputs])
        with torch.no_grad():
            for name in stage.inputs:
                model.get_parameter(name).mul_(0.8)
    assert met == [["left", "right"], ["down"]] * 4


def test_the_corrected_weight_is_the_least_squares_of_both_inputs() -> None:
    """Without ridge it is lstsq(x', x W^T), and with the dense inputs it is the weight."""
    layer, value = nn.Linear(8, 5), data()
    inputs = calibrate(layer, [value], gram=True)["weight"]
    weight = layer.weight.detach()
    assert torch.equal(corrected(weight, inputs), weight)
    other = (value + 0.3 * data(4)).double()
    gram = other.T @ other
    cross = (value.double().T @ other)[None]
    pair = Inputs("w", len(value), gram.diagonal()[None], gram[None], cross=cross)
    best = torch.linalg.lstsq(other, value.double() @ weight.double().T).solution.T
    torch.testing.assert_close(corrected(weight, pair, 0.0).double(), best, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["refit", "sparsegpt+refit", "alps"])
def test_corrected_pruning_strays_less_than_sequential(method: str) -> None:
    """On other data of the kind, the net's outputs come nearer to the dense ones."""
    with torch.no_grad():
        expected = net()(data(5))
    strayed = {}
    for mode in ("sequential", "corrected"):
        model = net()
        rules = [{"match": "[1-4].*", "pattern": "2:4", "method": method}]
        table = {"solver": "none", "calibration": mode, "layer": rules}
        pruning.prune(model, Recipe.of(table), example_inputs=data(), calibration=data().split(200))
        with torch.no_grad():
            strayed[mode] = float((model(data(5)) - expected).square().mean())
    assert strayed["corrected"] < strayed["sequential"]


def test_layers_that_read_other_rows_are_refused() -> None:
    """Where the pruned net routes rows elsewhere, the error names the layer and the way out."""

    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            out = value.clone()
            out[value[:, 0] > 0] += self.layer(value[value[:, 0] > 0])
            return out

    torch.manual_seed(0)
    model = nn.Sequential(Picky(), Picky(), Picky())

    def walk() -> None:
        for stage in calibrate_blocks(model, [data()], gram=True, paired=True):
            for name in stage.inputs:
                model.get_parameter(name).detach().mul_(-3.0)

    with pytest.raises(CalibrationError, match="sequential"):
        walk()
