"""Every zoo model: the groups found are the declared ones, and any order leaves the output."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import permsearch as ps
import pruning
from pruning.ops import tensors_in
from pruning.verify import distance
from tests.zoo import ZOO


@cache
def traced(name: str) -> tuple[torch.nn.Module, pruning.Network]:
    """Return a zoo model and its network; the model may be changed by nobody."""
    model = ZOO[name].build()
    return model, pruning.trace(model, ZOO[name].inputs)


def told(network: pruning.Network) -> Iterator[str]:
    """Yield the groups of a network as the zoo declares them."""
    for group in network.groups:
        if group.blocks > 1:
            yield f"{group.size} in {group.blocks}"
        else:
            yield f"{group.size} blocks" if group.kind == "of blocks" else str(group.size)


@pytest.mark.parametrize("name", ZOO)
def test_groups_are_the_declared_ones(name: str) -> None:
    """No freedom is lost and none is invented."""
    _, network = traced(name)
    assert sorted(told(network)) == ZOO[name].declared, network.summary()


@pytest.mark.parametrize("name", ZOO)
def test_nothing_is_passed_over(name: str) -> None:
    """Every dimension of every tensor is in a group or pinned with a reason."""
    _, network = traced(name)
    told_of = {(m.tensor, m.dim) for group in network.groups for m in group.members}
    told_of |= {(pin.tensor, pin.dim) for pin in network.pins}
    wide = {
        (tensor, dim)
        for tensor, shape in network.shapes.items()
        for dim, size in enumerate(shape)
        if size > 1
    }
    assert told_of == wide
    assert all(pin.reasons for pin in network.pins)
    assert bool(network.unknown) == ZOO[name].unknown
    assert bool(network.unread) == ZOO[name].unread


@pytest.mark.parametrize("name", ZOO)
def test_random_orders_leave_the_output(name: str) -> None:
    """All groups at once in random orders: the outputs agree to 1e-12 in float64."""
    _, network = traced(name)
    model = ZOO[name].build()
    solution = ps.random_solution(network.problem(), seed=3) if network.groups else {}
    with torch.no_grad():
        before = list(tensors_in(model(*copy.deepcopy(ZOO[name].inputs))))
        report = pruning.permute_(model, solution, network=network)
        after = list(tensors_in(model(*copy.deepcopy(ZOO[name].inputs))))
    assert report is not None
    assert report.difference <= 1e-12
    assert max(map(distance, before, after)) <= 1e-12
    moved = {network.base(m.tensor) for group in network.groups for m in group.members}
    fixed = ZOO[name].build().state_dict()
    for tensor, now in model.state_dict().items():
        old = fixed[tensor]
        assert np.array_equal(np.sort(now.flatten()), np.sort(old.flatten())), tensor
        if network.aliases.get(tensor, tensor) not in moved:
            assert torch.equal(now, old), tensor


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # torch tells of another kernel
@pytest.mark.parametrize("name", ZOO)
def test_single_precision_agrees_too(name: str) -> None:
    """In float32, random orders of all groups leave the outputs to 1e-5."""
    _, network = traced(name)
    model = ZOO[name].build().float()
    solution = ps.random_solution(network.problem(), seed=4) if network.groups else {}
    runs = []
    with torch.no_grad():
        for orders in ({}, solution):
            pruning.permute_(model, orders, network=network, verify=False)
            inputs = pytree.tree_map_only(torch.Tensor, narrow, ZOO[name].inputs)
            runs.append(list(tensors_in(model(*inputs))))
    assert max(map(distance, *runs)) <= 1e-5


def narrow(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor, float32 where it was float64."""
    return tensor.float() if tensor.is_floating_point() else tensor.clone()
