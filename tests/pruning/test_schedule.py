"""Schedules: densities that fall as told, and masks that settle while a model trains."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from permsearch.errors import PatternError
from permsearch.patterns import NM
from pruning.masks import attach_masks_, detach_masks_
from pruning.schedule import Cubic, ScheduleError, attach_sr_ste_, settle_sr_ste_


@given(
    begin=st.integers(0, 50),
    length=st.integers(1, 200),
    final=st.floats(0.01, 1),
    every=st.integers(1, 30),
)
def test_density_falls_from_start_to_final(
    begin: int, length: int, final: float, every: int
) -> None:
    """It never rises, begins at 1, ends at the final value, and changes only where it says so."""
    schedule = Cubic(begin, begin + length, final, every=every)
    values = [schedule.density(step) for step in range(begin + length + 20)]
    assert values[0] == pytest.approx(1.0)
    assert values[-1] == final
    assert all(a >= b - 1e-12 for a, b in pairwise(values))
    for step in range(1, len(values)):
        assert schedule.changes(step) == (values[step] != values[step - 1])


def test_the_cube_is_the_published_one() -> None:
    """Half way, an eighth of the way down is left."""
    assert Cubic(0, 100, 0.2).density(50) == pytest.approx(0.2 + 0.8 / 8)
    for wrong in ((5, 5, 0.5), (-1, 5, 0.5), (0, 5, 0.0), (0, 5, 1.5)):
        with pytest.raises(ScheduleError):
            Cubic(*wrong)


def test_sr_ste_gradient_is_the_papers() -> None:
    """The gradient passes the mask, plus the decay times what is dropped."""
    layer = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 1.0, -2.0, 0.5]]))
    attach_sr_ste_(layer, {"weight": NM(2, 4)}, decay=0.1)
    assert layer.weight.tolist() == [[3.0, 0.0, -2.0, 0.0]]
    layer(torch.tensor([[1.0, 10.0, 100.0, 1000.0]])).sum().backward()
    found = layer.parametrizations.weight.original.grad
    assert torch.allclose(found, torch.tensor([[1.0, 10.1, 100.0, 1000.05]]))


def test_training_from_scratch_ends_with_the_pattern() -> None:
    """Masks follow the weights while training, are fixed in evaluation, and settle for good."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    attach_sr_ste_(model, {"0.weight": NM(2, 4), "2.weight": NM(1, 4)}, decay=1e-2)
    first = model[0].parametrizations.weight[0].mask.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    value, target = torch.randn(64, 8), torch.randint(0, 4, (64,))
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(value), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    expected = model.eval()(value)
    masks = settle_sr_ste_(model)
    assert torch.equal(model(value), expected)
    assert not torch.equal(first, masks["0.weight"])
    for name, mask in masks.items():
        assert bool((model.get_parameter(name)[~mask] == 0).all())
    assert NM(1, 4).accepts(masks["2.weight"].numpy())
    attach_masks_(model, masks)
    assert torch.equal(model(value), expected)


def test_a_weight_that_cannot_carry_it_changes_nothing() -> None:
    """The pattern's own error is raised before any layer is touched."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(6, 4))
    with pytest.raises(PatternError):
        attach_sr_ste_(model, {"0.weight": NM(2, 4), "1.weight": NM(2, 4)})
    assert type(model[0]) is nn.Linear


def test_gradients_arrive_where_they_did() -> None:
    """What was hooked onto a parameter's gradient before its mask, as DDP does, is still called."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    ends = [p.expand_as(p).grad_fn.next_functions[0][0] for p in model.parameters()]
    called: list[int] = []
    for at, end in enumerate(ends):
        end.register_hook(lambda *_, at=at: called.append(at))
    mask = torch.eye(4, dtype=torch.bool)
    attach_masks_(model, {"0.weight": mask})
    attach_sr_ste_(model, {"1.weight": NM(2, 4)})
    model(torch.ones(2, 4)).sum().backward()
    assert sorted(called) == [0, 1, 2, 3]
    detach_masks_(model)
    settle_sr_ste_(model)
    model(torch.ones(2, 4)).sum().backward()
    assert sorted(called) == [0, 0, 1, 1, 2, 2, 3, 3]
