"""Scores and calibration: each against its formula written out, and against bad data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from permsearch.errors import ScoresError, UnknownName
from pruning import scores
from pruning.calibrate import calibrate, visible
from pruning.curvature import damped
from pruning.errors import CalibrationError
from pruning.gradients import gradients
from pruning.statistics import Inputs

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(6, 4), (2, 3, 6)),
    "conv1d": (nn.Conv1d(4, 6, 3, padding=1, dilation=2), (2, 4, 9)),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), stride=2, padding=1), (2, 4, 7, 6)),
    "circular": (nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (2, 4, 5, 5)),
    "same": (nn.Conv2d(4, 6, 3, padding="same"), (2, 4, 5, 5)),
    "grouped": (nn.Conv2d(4, 6, 3, groups=2), (2, 4, 5, 5)),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5)),
    "conv3d": (nn.Conv3d(2, 3, 2), (2, 2, 3, 3, 3)),
}


def drawn(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", LAYERS)
def test_gram_matrix_predicts_what_a_layer_puts_out(name: str) -> None:
    """tr(W H W^T) is the energy of the outputs without bias, whatever the kind of layer."""
    layer, shape = LAYERS[name]
    value = drawn(shape)
    found = calibrate(layer, [value, 2 * value], gram=True)["weight"]
    weight = layer.weight.detach().double()
    with torch.no_grad():
        wide = layer.double()
        output = wide(value.double())
        layer.float()
        bias = layer.bias.double()
    channel = -1 if name == "linear" else 1
    output = output.movedim(channel, -1) - bias
    energy = 0.0
    rows = len(weight) // found.blocks
    assert found.gram is not None
    for block in range(found.blocks):
        part = weight[block * rows : (block + 1) * rows].reshape(rows, -1)
        energy += float((part @ found.gram[block] @ part.T).trace())
    assert energy == pytest.approx(5 * float(output.square().sum()), rel=1e-6)
    assert torch.allclose(found.gram.diagonal(dim1=1, dim2=2), found.squares)


def test_formulas() -> None:
    """Every score equals its formula, entry by entry."""
    weight, value = drawn((3, 4)), drawn((5, 4), 1)
    gram = (value.T @ value).double()
    inputs = Inputs("w", 5, gram.diagonal()[None].clone(), gram[None])
    norms = value.double().square().mean(0).sqrt().float()
    size = weight.abs()
    assert torch.equal(scores.magnitude(weight), size)
    assert torch.equal(scores.energy(weight), weight.square())
    assert torch.allclose(scores.wanda(weight, inputs), size * norms)
    assert torch.allclose(scores.wanda_squared(weight, inputs), (size * norms) ** 2)
    relative = size / size.sum(0, keepdim=True) + size / size.sum(1, keepdim=True)
    assert torch.allclose(scores.ria(weight, inputs), relative * norms**0.5)
    assert torch.allclose(scores.ria(weight), relative)
    assert torch.allclose(
        scores.taylor(weight, drawn((3, 4), 2)), (weight * drawn((3, 4), 2)).abs()
    )
    mean = gram / 5
    inverse = torch.linalg.inv(mean + 0.01 * mean.diagonal().mean() * torch.eye(4))
    expected = weight.square() / inverse.diagonal().float()
    assert torch.allclose(scores.obs_diagonal(weight, inputs), expected, rtol=1e-5)


def test_obs_is_the_error_after_a_refit() -> None:
    """Without damping the score is the least output energy that dropping the weight can cost."""
    weight, value = drawn((1, 4)).double(), drawn((9, 4), 1).double()
    gram = value.T @ value
    inputs = Inputs("w", 9, gram.diagonal()[None].clone(), gram[None])
    found = scores.obs_diagonal(weight, inputs, damping=0.0)
    for drop in range(4):
        kept = [j for j in range(4) if j != drop]
        target = value @ weight[0]
        fit = torch.linalg.lstsq(value[:, kept], target[:, None]).solution
        error = (target - (value[:, kept] @ fit)[:, 0]).square().mean()
        assert float(found[0, drop]) == pytest.approx(float(error), rel=1e-9)


def test_blocks_have_their_own_inputs() -> None:
    """Groups of a convolution, and queries, keys and values, are scored by what they meet."""
    conv = nn.Conv2d(4, 6, 1, groups=2)
    value = torch.ones(1, 4, 1, 1)
    value[:, 2:] = 3
    found = calibrate(conv, [value])["weight"]
    norms = scores.wanda(torch.ones(6, 2, 1, 1), found)
    assert norms[:3].unique().tolist() == [1.0]
    assert norms[3:].unique().tolist() == [3.0]
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    query, key = torch.ones(1, 3, 4), 2 * torch.ones(1, 3, 4)
    spread = calibrate(attention, [(query, key, 3 * query)])["in_proj_weight"].spread(
        torch.Size((12, 4))
    )
    assert [row[0] for row in (spread / 3).tolist()] == [1.0] * 4 + [4.0] * 4 + [9.0] * 4


def test_the_way_out_of_attention_is_seen() -> None:
    """What reaches out_proj, which no module is called for, is what its output was made of."""
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    nn.init.normal_(attention.out_proj.bias)
    value = drawn((2, 3, 8))
    found = calibrate(attention, [(value, value, value)], gram=True)["out_proj.weight"]
    with torch.no_grad():
        output = attention(value, value, value)[0] - attention.out_proj.bias
        weight = attention.out_proj.weight.double()
    assert found.rows == 6
    assert found.gram is not None
    energy = (weight @ found.gram[0] @ weight.T).trace()
    assert float(energy) == pytest.approx(float(output.double().square().sum()), rel=1e-5)


def test_transposed_convolutions_read_along_axis_0() -> None:
    """Statistics of a transposed convolution follow its first axis, and it has no Gram matrix."""
    layer = nn.ConvTranspose2d(2, 3, 2)
    value = torch.ones(1, 2, 4, 4)
    value[:, 1] = 5
    found = calibrate(layer, [value], gram=True)["weight"]
    norms = scores.wanda(torch.ones(2, 3, 2, 2), found)
    assert norms[0].unique().tolist() == [1.0]
    assert norms[1].unique().tolist() == [5.0]
    with pytest.raises(CalibrationError, match="transposed"):
        list(found.grams())


def test_sums_are_those_of_all_rows_at_once() -> None:
    """One pass over batches gives float64 sums; hooks are gone, modes and weights as before."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.LSTM(5, 3)).train()
    value = drawn((7, 6)).bfloat16().float()
    found = calibrate(model, ((part,) for part in value.split(3)))
    exact = value.double().square().sum(0)
    assert torch.equal(found["0.weight"].squares[0], exact)
    assert set(found) == {"0.weight", "2.weight_ih_l0"}
    assert found["0.weight"].squares.dtype == torch.float64
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_low_precision_models_are_calibrated() -> None:
    """A bfloat16 model gives sums in float64 of what its layers met."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)).bfloat16()
    found = calibrate(model, [drawn((3, 8)).bfloat16()], gram=True)
    assert found["1.weight"].gram is not None
    assert found["1.weight"].gram.dtype == torch.float64
    assert scores.wanda(model[0].weight, found["0.weight"]).dtype == torch.float32


class _Idle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, value: torch.Tensor) -> Any:
        return functional.relu(self.used(value))


def test_bad_calibration_is_told() -> None:
    """No batches, no rows, NaN and a layer that is never reached: each names what is wrong."""
    model = _Idle()
    with pytest.raises(CalibrationError, match="no batches"):
        calibrate(model, [])
    with pytest.raises(CalibrationError, match=r"used.weight: calibration never reached it"):
        calibrate(model, [torch.empty(0, 4)], names=["used.weight"])
    with pytest.raises(CalibrationError, match=r"used.weight: .* 1 values that are NaN"):
        calibrate(model, [torch.tensor([[1.0, float("nan"), 0, 0]])])
    with pytest.raises(CalibrationError, match=r"idle.weight: calibration never reached it"):
        calibrate(model, [torch.ones(2, 4)], names=["idle.weight"])
    with pytest.raises(UnknownName, match=r"did you mean 'used.weight'"):
        calibrate(model, [torch.ones(2, 4)], names=["used.wieght"])
    assert visible(model) == {"used.weight": True, "idle.weight": True}
    assert not model.used._forward_pre_hooks


def test_thin_data_raise_the_damping() -> None:
    """A singular Gram matrix is damped until it can be inverted, and says by how much."""
    value = drawn((10, 64)).double()
    value[:, 7] = value[:, 3]
    gram = value.T @ value / 10
    assert damped(gram).damping == 0.01
    assert damped(gram, 0.0).damping > 0
    with pytest.raises(CalibrationError, match="zero or not finite"):
        damped(torch.zeros(3, 3), name="layer")
    dead = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
    assert torch.linalg.cholesky_ex(damped(dead, 0.0).matrix).info == 0


def test_scores_refuse_what_has_no_size() -> None:
    """Integers, other shapes, negative or NaN importances are refused with their place."""
    with pytest.raises(ScoresError, match="int64"):
        scores.magnitude(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(ScoresError, match="shape"):
        scores.taylor(torch.ones(2, 2), torch.ones(2, 3))
    with pytest.raises(ScoresError, match=r"layer.*index \(0, 1\)"):
        scores.external(torch.ones(1, 2), torch.tensor([[1.0, float("nan")]]), "layer")
    with pytest.raises(UnknownName, match="did you mean 'wanda'"):
        scores.score_kind("wnada")


def test_zero_rows_are_worth_nothing() -> None:
    """RIA of a weight with a row and a column of zeros is finite."""
    weight = drawn((4, 4))
    weight[1] = 0
    weight[:, 2] = 0
    found = scores.ria(weight)
    assert bool(found.isfinite().all())
    assert float(found[1].sum() + found[:, 2].sum()) == 0


def test_gradients_are_those_of_the_loss() -> None:
    """Sums of gradients and of their squares over batches; the model's own gradients stay."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    batches = [drawn((5, 4), seed) for seed in range(3)]
    found = gradients(model, batches, lambda output, _: output.square().mean())
    assert model[0].weight.grad is None
    each = []
    for batch in batches:
        model.zero_grad()
        model(batch).square().mean().backward()
        each.append(model[0].weight.grad.double().clone())
    assert torch.allclose(found["0.weight"].total, sum(each))
    assert torch.allclose(found["0.weight"].squares, sum(g.square() for g in each))
    importance = scores.taylor(model[0].weight, found["0.weight"].total)
    assert torch.allclose(importance, (model[0].weight.double() * sum(each)).abs().float())
    with pytest.raises(CalibrationError, match="no batches"):
        gradients(model, [], lambda output, _: output.sum())
    with pytest.raises(CalibrationError, match=r"0\.weight: its gradient in batch 0"):
        gradients(model, batches, lambda output, _: output.sum() * float("nan"))
    with pytest.raises(CalibrationError, match=r"idle\.weight: the loss does not depend"):
        gradients(_Idle(), [torch.ones(2, 4)], lambda output, _: output.sum())
