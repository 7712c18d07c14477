"""Applying orders: verified, undone where wrong, and carried to all that belongs to a model."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import OrderError, UnknownName
from pruning.axes import Atom
from pruning.groups import Orbit
from tests.zoo import ZOO
from tests.zoo_base import ROWS, TOKENS, Fn

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


def proven(model: nn.Module, *inputs: torch.Tensor) -> pruning.Report:
    """Return the report of random orders of all groups of a model."""
    network = pruning.trace(model, inputs)
    solution = ps.random_solution(network.problem(), seed=1) if network.groups else {}
    report = pruning.permute_(model, solution, network=network)
    assert report is not None
    return report


def test_runs_do_not_disturb_each_other() -> None:
    """A forward that counts, or keeps a moving average, is compared from one and the same state."""

    def run(m: Any, x: torch.Tensor) -> Any:
        h = m.a(x)
        m.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
        m.calls.add_(1)
        return m.b(h - m.mean) * m.calls

    model = Fn(run, a=nn.Linear(6, 8), b=nn.Linear(8, 3))
    model.register_buffer("mean", torch.rand(8))
    model.register_buffer("calls", torch.zeros(()))
    model.double()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert proven(model, ROWS).difference <= 1e-12
    assert float(model.calls) == 0
    assert torch.equal(model.mean.sort().values, before["mean"].sort().values)


def test_random_numbers_of_a_forward_are_the_same_in_all_runs() -> None:
    """Noise after the hidden layer leaves its group free; noise on it pins it."""
    for at_end, groups in ((True, 1), (False, 0)):

        def run(m: Any, x: torch.Tensor, at_end: bool = at_end) -> Any:
            h = m.a(x) if at_end else m.a(x) + torch.randn_like(m.a(x))
            return m.b(h) + (torch.randn(3) if at_end else 0)

        model = Fn(run, a=nn.Linear(6, 8), b=nn.Linear(8, 3)).double()
        state = torch.get_rng_state()
        assert len(pruning.trace(model, ROWS).groups) == groups
        assert proven(model, ROWS).same
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("held", ["attribute", "buffer"])
def test_memory_that_something_else_reads_is_not_moved(held: str) -> None:
    """A tensor made of a weight's memory pins the weight, in the state dict or not."""
    model = Fn(
        lambda m, x: (m.b(F.relu(m.a(x))), x @ m.other), a=nn.Linear(6, 8), b=nn.Linear(8, 3)
    ).double()
    view = model.a.weight.detach().t()
    if held == "buffer":
        model.register_buffer("other", view, persistent=False)
    else:
        model.other = view
    before = model(ROWS)
    network = pruning.trace(model, ROWS)
    assert any("shares memory" in reason for pin in network.pins for reason in pin.reasons)
    proven(model, ROWS)
    torch.testing.assert_close(model(ROWS), before)


def test_the_model_itself_is_compared_too() -> None:
    """What a copy does not share with the model (a second name of its memory) is noticed."""
    model, network = small()
    model.register_forward_pre_hook(lambda m, args: None)
    held = model[0].weight.detach()  # made after the model was traced
    model.register_forward_hook(lambda m, args, out: out + held[:3, 0])
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(pruning.VerificationError, match="restored"):
        pruning.permute_(model, shuffled(network), network=network)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_rounding_of_sums_that_cancel_is_no_objection() -> None:
    """Where float64 shows that nothing changed, float32 may be further apart than 1e-5."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 512), nn.Linear(512, 4)).eval()
    with torch.no_grad():
        model[0].bias.fill_(100.0)
        model[1].weight -= model[1].weight.mean(1, keepdim=True)
        model[1].weight *= 10
    inputs = torch.randn(8, 16)
    network, before = pruning.trace(model, inputs), model(inputs).detach()
    pruning.permute_(model, shuffled(network), network=network)
    apart = float((model(inputs).detach() - before).abs().max() / before.abs().max())
    assert 1e-5 < apart < pruning.verify.PROVEN_LIMIT


def test_other_lengths_are_compared() -> None:
    """An order that is right for one length alone is refused, and the message says how to trace."""

    def run(m: Any, x: torch.Tensor) -> Any:
        h = m.a(x)
        return m.b(h.reshape(len(h), 8, -1).transpose(1, 2))  # of one token: no mixing

    model = Fn(run, a=nn.Linear(6, 8), b=nn.Linear(8, 3)).double()
    network = pruning.trace(model, TOKENS[:, :1])
    assert network.groups
    with pytest.raises(pruning.VerificationError, match="a length of 1"):
        pruning.permute_(model, shuffled(network), network=network)
    assert pruning.trace(model, TOKENS).groups == ()


def test_complex_models_are_compared_in_their_own_type() -> None:
    """Single-precision complex numbers round like single-precision ones."""
    weights = [
        nn.Parameter(torch.randn(shape, dtype=torch.complex64)) for shape in ((6, 8), (8, 3))
    ]
    model = Fn(lambda m, x: ((x.to(m.a.dtype) @ m.a) @ m.b).abs(), a=weights[0], b=weights[1])
    report = proven(model, ROWS.float())
    assert report.same
    assert report.limit == 1e-5
