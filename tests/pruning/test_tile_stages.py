"""Tile-wise sparsity in stages, in training loops that are run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import permsearch as ps
import pruning
from permsearch.errors import UnknownName
from permsearch.patterns import TileWise
from pruning.errors import CalibrationError
from pruning.schedule import ScheduleError
from pruning.tile_stages import TileStages, train_in_stages_


def net() -> nn.Module:
    """Return a classifier whose second layer is wide and matters little."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )


def batches(count: int = 20, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """Return draws around four centres, with which one it was."""
    dice = torch.Generator().manual_seed(seed)
    centres = torch.randn(4, 16, generator=torch.Generator().manual_seed(7))
    found = []
    for _ in range(count):
        label = torch.randint(4, (64,), generator=dice)
        found.append({"input": centres[label] + torch.randn(64, 16, generator=dice), "y": label})
    return found


class Batch(tuple[torch.Tensor]):
    """Arguments for a model, with the label beside them."""

    label: torch.Tensor


def as_batches(seed: int = 0) -> list[Batch]:
    """Return batches whose only argument is the input."""
    found = []
    for each in batches(seed=seed):
        batch = Batch((each["input"],))
        batch.label = each["y"]
        found.append(batch)
    return found


def loss(output: torch.Tensor, batch: Any) -> torch.Tensor:
    """Return the cross entropy."""
    return functional.cross_entropy(output, batch.label)


NAMES = ["0.weight", "2.weight", "4.weight"]


def trained(**more: Any) -> tuple[nn.Module, list[Any]]:
    """Return a net that was trained in stages, and what these decided."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    keys = {"pattern": "tile:4@0.25", "shares": [0.7, 0.45], "steps": 15, **more}
    return model, train_in_stages_(model, as_batches(), loss, optimizer, **keys)


def test_masks_follow_the_shares_in_stages() -> None:
    """At the end all layers together keep the share, in tiles, and dropped weights are zero."""
    model, told = trained()
    assert [each.share for each in told] == [0.7, 0.45, 0.25]
    masks = pruning.masks_of(model)
    assert set(masks) == set(NAMES)
    for name, mask in masks.items():
        assert told[-1].patterns[name].accepts(mask.numpy())
        weight = model.get_submodule(name.removesuffix(".weight")).parametrizations.weight.original
        assert bool((weight[~mask] == 0).all())
    total = sum(mask.numel() for mask in masks.values())
    kept = sum(int(mask.sum()) for mask in masks.values())
    assert total * 0.25 - 4 < kept <= total * 0.25
    assert len({pattern.kept for pattern in told[-1].patterns.values()}) > 1


def test_stages_beat_one_shot_by_magnitude() -> None:
    """With as many steps and the same budget, the loss is lower than with one share for all."""
    model, _ = trained()
    other = net()
    optimizer = torch.optim.Adam(other.parameters(), lr=0.01)
    data = as_batches() * 3
    for step, batch in enumerate(data):
        if step == 15:
            pattern = TileWise(4, 0.25)
            sizes = {name: other.get_parameter(name).detach().abs() for name in NAMES}
            masks = {name: torch.from_numpy(pattern.keep(s.numpy())) for name, s in sizes.items()}
            pruning.attach_masks_(other, masks, optimizer=optimizer)
        optimizer.zero_grad()
        loss(other(*batch), batch).backward()
        optimizer.step()
    with torch.no_grad():
        own, theirs = (
            sum(float(loss(m(*b), b)) for b in as_batches(seed=9)) for m in (model, other)
        )
    assert own < theirs


def test_a_stage_ranks_by_what_was_watched() -> None:
    """Scores are (gradient * weight)^2 summed over the steps; the best tiles of all layers stay."""
    model = net()
    stages = TileStages(model, "tile:4@0.5", names=["0.weight", "2.weight"])
    sums = {name: torch.zeros_like(model.get_parameter(name)) for name in stages.weights}
    for batch in as_batches()[:3]:
        model.zero_grad()
        loss(model(*batch), batch).backward()
        stages.watch()
        for name, total in sums.items():
            weight = model.get_parameter(name)
            assert weight.grad is not None
            total += (weight.grad * weight.detach()) ** 2
    expected = ps.tile_shares({name: total.numpy() for name, total in sums.items()}, "tile:4@0.5")
    ranking = stages.advance_()
    assert ranking.patterns == expected
    assert stages.done
    for name, mask in pruning.masks_of(model).items():
        assert torch.equal(mask, torch.from_numpy(expected[name].keep(sums[name].numpy())))


def test_what_does_not_fit_is_told() -> None:
    """Other patterns, shares that rise, names that are none, and stages without steps."""
    with pytest.raises(ScheduleError, match="2:4 is not tile-wise"):
        TileStages(net(), "2:4")
    for shares in ([0.2], [0.5, 0.6], [1.5]):
        with pytest.raises(ScheduleError, match="shares must fall"):
            TileStages(net(), "tile:4@0.25", shares=shares)
    with pytest.raises(UnknownName, match=r"0\.weight"):
        TileStages(net(), "tile:4@0.25", names=["0.weigth"])
    stages = TileStages(net(), "tile:4@0.25")
    with pytest.raises(ScheduleError, match="no step was watched"):
        stages.advance_()
    with pytest.raises(CalibrationError, match=r"0\.weight has no gradient"):
        stages.watch()
    with pytest.raises(ScheduleError, match="at least one step"):
        trained(steps=0)


def test_batches_that_end_are_told() -> None:
    """An iterator that is used up ends the training with a way out."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(CalibrationError, match="no batches"):
        train_in_stages_(
            model, iter(as_batches()[:2]), loss, optimizer, pattern="tile:4@0.25", steps=5
        )
