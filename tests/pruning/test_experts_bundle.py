"""Bundles of weights whose blocks have orders of their own: stacked experts."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import permsearch as ps
import pruning
from permsearch.errors import FileError
from permsearch.io.bundle import BundleEntry
from pruning import MaskBundle
from pruning.bundle import stored_mask
from pruning.errors import BundleMismatch
from pruning.moves_text import moves_as_text, moves_from_text
from pruning.network import Part
from pruning.pruned import moved, orders_of
from pruning.reorder import Move


class Experts(nn.Module):
    """Three experts in two stacked parameters, mixed by a router."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(8, 8)
        self.router = nn.Linear(8, 3)
        self.up = nn.Parameter(torch.randn(3, 16, 8))
        self.down = nn.Parameter(torch.randn(3, 8, 16))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the mixture."""
        value = self.stem(value)
        hidden = torch.relu(torch.einsum("nd,ehd->neh", value, self.up))
        found = torch.einsum("neh,edh->ned", hidden, self.down)
        return (found * self.router(value).softmax(-1)[..., None]).sum(1)


def pruned() -> tuple[Experts, pruning.PruneResult]:
    """Return the experts after pruning, with orders of their own."""
    model = Experts()
    recipe = {
        "steps": 60,
        "layer": [{"match": "router", "pattern": "dense"}, {"match": "*", "pattern": "2:4"}],
    }
    example = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    return model, pruning.prune(model, recipe, example_inputs=example)


def test_a_bundle_of_experts_fits_both_models(tmp_path: Path) -> None:
    """Saved and loaded, it masks the dense model and the pruned one, to the same function."""
    model, result = pruned()
    assert result.bundle["down"].record["entangled"]
    result.bundle.save(tmp_path / "bundle")
    loaded = MaskBundle.load(tmp_path / "bundle")
    masks = pruning.masks_of(model)
    plain, dense = copy.deepcopy(model), Experts()
    pruning.detach_masks_(plain)
    loaded.apply_(plain)
    loaded.apply_(dense)
    for name, mask in pruning.masks_of(plain).items():
        assert torch.equal(mask, masks[name])
        assert np.array_equal(stored_mask(loaded[name]), mask.numpy())
    for expert in masks["down"]:
        assert ps.NM(2, 4).accepts(expert.numpy())
    value = torch.randn(6, 8)
    torch.testing.assert_close(plain(value), model(value))
    torch.testing.assert_close(dense(value), model(value), rtol=1e-4, atol=1e-5)


def test_what_is_not_recorded_is_refused() -> None:
    """A bundle of before moves were recorded says so; damaged ones are named."""
    _, result = pruned()
    entry = result.bundle["down"]
    old = {key: value for key, value in entry.record.items() if key != "moves"}
    with pytest.raises(BundleMismatch, match="down: its blocks have orders of their own"):
        stored_mask(replace(entry, record=old))
    for index in ("AAAA", "?"):
        broken = {**entry.record, "moves": [{"dims": [1], "part": None, "index": index}]}
        with pytest.raises(FileError, match="down: its moves are damaged"):
            stored_mask(replace(entry, record=broken))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 4), 0),
        ((3, 4), 1),
        ((3, 4, 5), 0),
        ((3, 4, 5), 2),
        ((2, 3, 4, 5), 1),
        ((2, 3, 4, 5), 2),
    ],
)
def test_orders_of_any_axis_give_the_stored_mask(shape: tuple[int, ...], axis: int) -> None:
    """Whichever dimension inputs lie along, a mask with its two orders is what moves make of it."""
    dice = np.random.default_rng(0)
    outer = 1 if axis == 0 else 0
    moves = [Move((dim,), dice.permutation(shape[dim])) for dim in (outer, axis)]
    mask = torch.from_numpy(dice.random(shape) < 0.5)
    rows, cols, entangled = orders_of(torch.Size(shape), axis, moves)
    assert not entangled
    record = {"shape": list(shape), "axis": axis}
    pattern = ps.NM(2, 4)
    entry = BundleEntry("weight", pattern, mask.numpy(), rows, cols, None, record)
    assert np.array_equal(stored_mask(entry), moved(mask, moves).numpy())


@given(st.integers(0, 10**6), st.booleans())
def test_moves_survive_being_told(seed: int, part: bool) -> None:
    """Moves read back do to a tensor what the moves did that were written."""
    dice = np.random.default_rng(seed)
    piece = Part("weight", 0, 1, 2) if part else None
    count = 2 if part else 4
    moves = [Move((0, 1), dice.permutation(count * 3), piece), Move((2,), dice.permutation(5))]
    one, two = torch.arange(60).reshape(4, 3, 5), torch.arange(60).reshape(4, 3, 5)
    for move in moves:
        move.apply_(one)
    for move in moves_from_text(moves_as_text(moves), "weight"):
        move.apply_(two)
    assert torch.equal(one, two)
