"""Applying orders: verified, undone where wrong, and carried to all that belongs to a model."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import OrderError, UnknownName
from pruning.axes import Atom
from pruning.groups import Orbit
from tests.zoo import ZOO
from tests.zoo_base import ROWS

SMALL = "mlp"


def small() -> tuple[nn.Module, pruning.Network]:
    """Return a small model and its network."""
    model = ZOO[SMALL].build()
    return model, pruning.trace(model, ZOO[SMALL].inputs)


def shuffled(network: pruning.Network) -> dict[str, np.ndarray]:
    """Return random orders of all groups."""
    return dict(ps.random_solution(network.problem(), seed=5))


def wrong(network: pruning.Network) -> pruning.Network:
    """Return a network in which a bias was forgotten."""
    axes = {**network.axes, "0.bias": (((Atom(16)),),)}
    return replace(network, axes=axes)


def test_a_wrong_network_is_undone() -> None:
    """An output that changes raises, and every tensor is as it was."""
    model, network = small()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(pruning.VerificationError, match="restored"):
        pruning.permute_(model, shuffled(network), network=wrong(network))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_wrong_network_is_undone_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where memory does not allow a copy."""
    monkeypatch.setattr(pruning.verify, "MEMORY_SHARE", 0.0)
    test_a_wrong_network_is_undone()


def test_a_result_of_a_search_is_applied() -> None:
    """A search result will do, and the model then keeps what the search promised."""
    model, network = small()
    problem = network.problem("2:4")
    result = ps.solve(problem, "swap", stop=ps.MaxSteps(200))
    pruning.permute_(model, result, network=network)
    again = network.problem("2:4")
    assert again.evaluate(again.identity()) == pytest.approx(result.score)
    assert result.score > result.baseline


def test_bad_orders_change_nothing() -> None:
    """Unknown groups and illegal orders are named before anything moves."""
    model, network = small()
    before = copy.deepcopy(model.state_dict())
    name = network.groups[0].name
    with pytest.raises(UnknownName, match="group"):
        pruning.permute_(model, {"nothing": [0, 1]}, network=network)
    with pytest.raises(OrderError):
        pruning.permute_(model, {name: [0] * 16}, network=network)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_orders_that_cross_heads_are_refused() -> None:
    """Values may not leave their head."""
    model = ZOO["multi-head attention"].build()
    network = pruning.trace(model, ZOO["multi-head attention"].inputs)
    name = next(group.name for group in network.groups if group.blocks == 2)
    with pytest.raises(OrderError, match="not one that"):
        pruning.permute_(model, {name: np.arange(8)[::-1]}, network=network)


def test_a_model_of_other_shapes_is_refused() -> None:
    """The tensor that does not fit is named."""
    _, network = small()
    other = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 11), nn.GELU())
    with pytest.raises(pruning.StateError, match=r"2\.weight has shape"):
        pruning.permute_(other, {}, network=network)


def test_state_dict_is_permuted_like_the_model() -> None:
    """A bare state dict, a wrapper's prefix on its names, takes the same moves."""
    model, network = small()
    solution = shuffled(network)
    state = {f"module.{name}": t.clone() for name, t in model.state_dict().items()}
    assert pruning.permute_(state, solution, network=network) is None
    pruning.permute_(model, solution, network=network)
    assert all(torch.equal(state[f"module.{n}"], t) for n, t in model.state_dict().items())


def test_tied_names_of_a_state_dict_move_alike() -> None:
    """A checkpoint that stores a tied tensor twice stays consistent."""
    model = ZOO["tied embedding"].build()
    network = pruning.trace(model, ZOO["tied embedding"].inputs)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pruning.permute_(state, shuffled(network), network=network)
    assert torch.equal(state["e.weight"], state["head.weight"])
    assert not torch.equal(state["e.weight"], model.state_dict()["e.weight"])


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_training_goes_on_as_it_would_have(kind: type[torch.optim.Optimizer]) -> None:
    """Two runs, one permuted half-way with its optimizer, end in the same function."""
    options = {"lr": 0.01, "momentum": 0.9} if kind is torch.optim.SGD else {"lr": 0.01}
    ended = []
    for permuted in (False, True):
        model, network = small()
        optimizer = kind(model.parameters(), **options)
        step(model, optimizer)
        if permuted:
            pruning.permute_(model, shuffled(network), network=network, optimizer=optimizer)
        step(model, optimizer)
        ended.append(model(ROWS))
    torch.testing.assert_close(*ended, rtol=1e-9, atol=1e-9)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Take one step of training."""
    optimizer.zero_grad()
    model(ROWS).square().sum().backward()
    optimizer.step()


def test_optimizer_state_of_unknown_layout_is_refused() -> None:
    """A factored state is named before anything moves."""
    model, network = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parameter = next(model.parameters())
    optimizer.state[parameter] = {"rows": torch.ones(16)}
    with pytest.raises(pruning.StateError, match=r"'rows' of 0\.weight"):
        pruning.permute_(model, shuffled(network), network=network, optimizer=optimizer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_only_move(dtype: torch.dtype) -> None:
    """In any type, the entries of each tensor are the same ones, bit by bit."""
    model, network = small()
    model = model.to(dtype)
    network = pruning.trace(model, ROWS.to(dtype))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pruning.permute_(model, shuffled(network), network=network)
    for name, tensor in model.state_dict().items():
        assert tensor.dtype == dtype
        assert torch.equal(tensor.flatten().sort().values, before[name].flatten().sort().values)


def test_free_outputs_are_told() -> None:
    """With free outputs the last axis moves, and the comparison knows how."""
    model = ZOO[SMALL].build()
    network = pruning.trace(model, ZOO[SMALL].inputs, outputs="free")
    assert sorted(group.size for group in network.groups) == [3, 12, 16]
    before = model(ROWS)
    solution = shuffled(network)
    report = pruning.permute_(model, solution, network=network)
    assert report is not None
    assert report.difference < 1e-12
    order = torch.from_numpy(solution["4.weight[0]"])
    torch.testing.assert_close(model(ROWS), before[:, order])


def test_a_circle_of_contexts_is_broken() -> None:
    """Orbits that depend on each other are ranked all the same."""
    one, two = Atom(2), Atom(3)
    from pruning.groups import _ranked

    ranked = _ranked([Orbit((one,), (two,)), Orbit((two,), (one,))])
    assert [(orbit.leaves, orbit.within) for orbit in ranked] == [((two,), (one,)), ((one,), ())]
