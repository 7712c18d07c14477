"""Orders at run time: the function stays, and the cost is told."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import OrderError, UnknownName
from pruning.formulate import formulate
from tests.zoo_base import IMAGE, ROWS


def network() -> nn.Module:
    """Return a convolution and two linear layers."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 6), nn.Linear(6, 6)
    ).double()


def test_outputs_stay(rng: np.random.Generator) -> None:
    """Gathered layers of both kinds compute what they did, with reordered columns."""
    model = network()
    before, weight = model(IMAGE), model[3].weight.detach().clone()
    orders = {"0": rng.permutation(3), "3": rng.permutation(288)}
    costs = pruning.gather_(model, orders)
    torch.testing.assert_close(model(IMAGE), before, rtol=1e-12, atol=1e-12)
    assert torch.equal(model[3].layer.weight, weight[:, torch.from_numpy(orders["3"])])
    assert [cost.layer for cost in costs] == ["0", "3"]
    assert costs[1].moved == 2 * 288 * 8
    assert costs[1].share > 0
    assert "288" in repr(model[3])


def test_gathered_model_can_be_saved(rng: np.random.Generator) -> None:
    """The order is part of the state dict."""
    model = network()
    pruning.gather_(model, {"4": rng.permutation(6)})
    other = network()
    pruning.gather_(other, {"4": np.arange(6)})
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(IMAGE), model(IMAGE))


def test_gathered_model_can_be_traced(rng: np.random.Generator) -> None:
    """The looked-up axis is pinned, so that further orders stay legal."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)).double()
    pruning.gather_(model, {"1": rng.permutation(8)})
    found = pruning.trace(model, ROWS)
    assert [group.name for group in found.groups] == ["1.layer.weight[0]"]


def test_gathered_layers_are_searched_alone() -> None:
    """A layer behind a gather has a variable of its own; group orders under it are undone."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 4)).double()
    value = torch.ones(2, 8, dtype=torch.float64).cumsum(1)
    network = pruning.trace(model, value)
    before = model(value)
    found = formulate(network, "2:4", gather=("0", "2"))
    assert {plan.tensor: plan.state for plan in found.layers} == {
        "0.weight": "gathered",
        "2.weight": "gathered",
        "3.weight": "absorbed",
    }
    solution = ps.random_solution(found.problem, seed=3)
    promised = found.problem.evaluate(solution)
    pruning.permute_(model, solution, network=network)
    pruning.gather_(model, pruning.gathered_orders(network, solution))
    torch.testing.assert_close(model(value), before, rtol=1e-12, atol=1e-12)
    kept = sum(
        ps.parse_pattern("2:4").retained(weight.detach().abs().numpy())
        for weight in (model[0].layer.weight, model[2].layer.weight, model[3].weight)
    )
    assert kept == pytest.approx(promised)


def test_what_cannot_be_gathered_is_refused() -> None:
    """The layer and the reason are named, and nothing changes."""
    model = nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), nn.Linear(4, 4), nn.Linear(4, 4))
    model[2].weight = model[1].weight
    with pytest.raises(pruning.StateError, match="0 is a Conv2d"):
        pruning.gather_(model, {"0": [1, 0, 2, 3]})
    with pytest.raises(pruning.StateError, match=r"also 2\.weight"):
        pruning.gather_(model, {"1": [1, 0, 2, 3]})
    with pytest.raises(UnknownName):
        pruning.gather_(model, {"9": [0]})
    with pytest.raises(OrderError):
        pruning.gather_(nn.Sequential(nn.Linear(4, 4)), {"0": [0, 0, 1, 2]})
