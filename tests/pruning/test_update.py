"""Weights made to fit after masking: against least squares and sweeps written out plainly."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn

from permsearch.patterns import NM
from pruning.calibrate import calibrate
from pruning.errors import CalibrationError, StateError
from pruning.norms import reestimate_batchnorm_
from pruning.rerank import rerank
from pruning.statistics import Inputs
from pruning.sweep import feature_order
from pruning.update import compensate, output_error, refit, sparsegpt


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def correlated(rows: int, features: int) -> torch.Tensor:
    """Return inputs whose features go along with one another."""
    return drawn(rows, features, seed=3) @ (torch.eye(features) + 0.4 * drawn(features, features))


def inputs_of(value: torch.Tensor) -> Inputs:
    """Return the statistics of a linear layer's inputs."""
    gram = value.double().T @ value.double()
    return Inputs("w", len(value), gram.diagonal()[None].clone(), gram[None])


def half(weight: torch.Tensor) -> torch.Tensor:
    """Return the 2:4 mask by magnitude."""
    return torch.from_numpy(NM(2, 4).keep(weight.abs().numpy()))


def test_output_error_is_what_the_layer_does() -> None:
    """The error from the Gram matrix is the mean squared change of the outputs."""
    weight, value = drawn(5, 8), correlated(30, 8)
    new = weight * half(weight)
    change = (value.double() @ (weight - new).double().T).square().sum() / 30
    assert output_error(weight, new, inputs_of(value)) == pytest.approx(float(change))


@pytest.mark.parametrize("shared", [False, True])
def test_refit_is_least_squares(shared: bool) -> None:
    """Every row is the least-squares fit of its outputs on the inputs that it keeps."""
    weight, value = drawn(12, 8), correlated(40, 8)
    mask = half(weight)
    mask[3, :] = torch.arange(8) == 2  # rows may keep different numbers
    if shared:
        mask = mask[:2].repeat_interleave(6, 0)
    found = refit(weight, mask, inputs_of(value), damping=0.0)
    for row, kept, new in zip(weight, mask, found, strict=True):
        target = value.double() @ row.double()
        fit = torch.linalg.lstsq(value[:, kept].double(), target[:, None]).solution[:, 0]
        assert torch.allclose(new[kept].double(), fit, atol=1e-5)
        assert bool((new[~kept] == 0).all())


def test_refit_of_grouped_and_turned_convolutions() -> None:
    """Groups are fitted on their own inputs, and the error never rises."""
    layer = nn.Conv2d(8, 6, 3, groups=2)
    found = calibrate(layer, [drawn(4, 8, 9, 9)], gram=True)["weight"]
    weight = layer.weight.detach()
    mask = half(weight)
    before = output_error(weight, weight * mask, found)
    after = output_error(weight, refit(weight, mask, found), found)
    assert after < 0.95 * before


def plain_sweep(weight: torch.Tensor, gram: torch.Tensor, n: int, m: int) -> torch.Tensor:
    """Prune one column at a time, eliminating it from the inverse: SparseGPT's definition."""
    weight, inverse = weight.double().clone(), torch.linalg.inv(gram)
    mask = torch.ones_like(weight, dtype=torch.bool)
    size = weight.shape[1]
    for at in range(size):
        if at % m == 0:
            ahead, prices = inverse.clone(), []
            for j in range(at, at + m):
                prices.append(ahead[j, j].clone())
                ahead = ahead - torch.outer(ahead[:, j], ahead[j]) / ahead[j, j]
            losses = weight[:, at : at + m].square() / torch.stack(prices)
            drop = losses.argsort(1)[:, : m - n]
            mask[:, at : at + m].scatter_(1, drop, value=False)
        error = torch.where(mask[:, at], 0.0, weight[:, at]) / inverse[at, at]
        update = error[:, None] * inverse[at]
        update[:, :at] = 0
        weight -= update
        inverse = inverse - torch.outer(inverse[:, at], inverse[at]) / inverse[at, at]
    return weight * mask


def test_sparsegpt_is_its_definition() -> None:
    """The blocked sweep equals elimination one column at a time, in any order of the columns."""
    weight, value = drawn(6, 16), correlated(60, 16)
    inputs = inputs_of(value)
    gram = value.double().T @ value.double() / 60
    gram += 0.01 * gram.diagonal().mean() * torch.eye(16)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    expected = plain_sweep(weight[:, order], gram[order][:, order], 2, 4)
    found, mask = sparsegpt(weight, inputs, 2, 4, cols=order)
    assert torch.allclose(found[:, order].double(), expected, atol=1e-5)
    assert NM(2, 4).accepts(mask[:, order].numpy())
    assert int(mask.sum()) == 48


def test_sparsegpt_of_convolutions_groups_channels_at_each_tap() -> None:
    """The mask of a convolution is N:M along input channels; the error is below plain masking."""
    layer = nn.Conv2d(8, 6, 3)
    found = calibrate(layer, [drawn(6, 8, 9, 9)], gram=True)["weight"]
    weight = layer.weight.detach()
    new, mask = sparsegpt(weight, found, 1, 4)
    assert NM(1, 4).accepts(mask.numpy())
    assert int(mask.sum()) == weight.numel() // 4
    plain = weight * torch.from_numpy(NM(1, 4).keep(weight.abs().numpy()))
    assert output_error(weight, new, found) < output_error(weight, plain, found)
    assert feature_order(2, 4, torch.tensor([1, 0])).tolist() == [2, 0, 3, 1]


def test_methods_rank_as_they_should() -> None:
    """Of one mask: nothing done, the sweep, the refit: each has a smaller error than the last."""
    weight, value = drawn(16, 32), correlated(200, 32)
    inputs, mask = inputs_of(value), half(weight)
    errors = [
        output_error(weight, new, inputs)
        for new in (
            weight * mask,
            compensate(weight, mask, inputs),
            refit(weight, mask, inputs, damping=0.0),
        )
    ]
    assert errors[0] > errors[1] > errors[2]
    turned = compensate(weight, mask, inputs, order=torch.arange(31, -1, -1))
    assert bool((turned[~mask] == 0).all())
    assert output_error(weight, turned, inputs) < errors[0]


def test_thin_data_end_finite() -> None:
    """Ten rows for 64 inputs, two of them equal: finite weights and an exact mask, in bfloat16."""
    value = drawn(10, 64)
    value[:, 7] = value[:, 3]
    weight = drawn(32, 64, seed=2).bfloat16()
    inputs = inputs_of(value.bfloat16())
    for damping in (0.0, 0.01):
        new, mask = sparsegpt(weight, inputs, 2, 4, damping=damping)
        assert bool(new.isfinite().all())
        assert new.dtype == torch.bfloat16
        assert int(mask.sum()) == 32 * 32
        assert bool(refit(weight, mask, inputs, damping=damping).isfinite().all())


def test_batch_norms_take_the_statistics_of_the_data() -> None:
    """Running statistics are the means over the batches; momentum and modes are as before."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=0.3), nn.Dropout()).train()
    batches = [drawn(50, 4, seed=seed) for seed in range(3)]
    assert reestimate_batchnorm_(model, batches) == 1
    with torch.no_grad():
        means = torch.stack([model[0](batch).mean(0) for batch in batches])
    assert torch.allclose(model[1].running_mean, means.mean(0), atol=1e-6)
    assert model[1].momentum == 0.3
    assert model.training
    saved = model[1].running_mean.clone()
    with pytest.raises(CalibrationError, match="no batches"):
        reestimate_batchnorm_(model, [])
    with pytest.raises(CalibrationError, match="not finite"):
        reestimate_batchnorm_(model, [torch.full((3, 4), float("nan"))])
    assert torch.equal(model[1].running_mean, saved)
    assert reestimate_batchnorm_(nn.Linear(2, 2), []) == 0


@pytest.mark.parametrize("method", ["mask", "refit"])
def test_orders_are_ranked_by_what_they_cost(method: Literal["mask", "refit"]) -> None:
    """The ranking is by output error, the best is never worse than the stored order."""
    weight, value = drawn(16, 16), correlated(100, 16)
    inputs = inputs_of(value)
    orders = [None, *(np.random.default_rng(seed).permutation(16) for seed in range(6))]
    ranked = rerank(weight, weight.abs(), orders, NM(2, 4), inputs, method=method)
    assert [each.error for each in ranked] == sorted(each.error for each in ranked)
    stored = next(each for each in ranked if each.order is None)
    assert torch.equal(stored.mask, half(weight))
    assert ranked[0].error < stored.error
    for each in ranked:
        order = np.arange(16) if each.order is None else each.order
        assert NM(2, 4).accepts(each.mask.numpy()[:, order])
        new = refit(weight, each.mask, inputs) if method == "refit" else weight * each.mask
        assert each.error == pytest.approx(output_error(weight, new, inputs))
        assert each.retained == pytest.approx(float((weight.abs() * each.mask).sum()), rel=1e-6)
    with pytest.raises(StateError, match="dimension 1"):
        rerank(weight, weight.abs(), [None], NM(2, 4), replace(inputs, axis=0))
