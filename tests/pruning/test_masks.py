"""Masks in training: exact zeros after every step, whatever trains, copies or stores the model."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from permsearch.errors import UnknownName
from pruning.errors import StateError
from pruning.masked import masks_in_state
from pruning.masks import (
    attach_masks_,
    density,
    detach_masks_,
    keep_masked,
    masks_of,
    update_masks_,
)


def half(weight: torch.Tensor) -> torch.Tensor:
    """Return the 2:4 mask by magnitude along dimension 1."""
    groups = weight.detach().abs().reshape(len(weight), -1, 4)
    top = groups.topk(2, -1).indices
    return torch.zeros_like(groups, dtype=torch.bool).scatter(-1, top, True).reshape(weight.shape)


def half_of(model: nn.Module, *names: str) -> dict[str, torch.Tensor]:
    """Return such masks for the named weights; for all with 4-divisible columns without names."""
    found = {n: p for n, p in model.named_parameters() if p.dim() == 2 and p.shape[1] % 4 == 0}
    return {name: half(found[name]) for name in names or found}


def small() -> nn.Sequential:
    """Return two linear layers with fixed values."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, *args: Any) -> None:
    """Take one step on a loss that every output matters to."""
    optimizer.zero_grad()
    output = model(*args)
    output = output[0] if isinstance(output, tuple) else output
    (output - 1).square().mean().backward()
    optimizer.step()


def weight_at(model: nn.Module, name: str) -> torch.Tensor:
    """Return the weight that a model computes with."""
    prefix, _, leaf = name.rpartition(".")
    found: torch.Tensor = getattr(model.get_submodule(prefix), leaf)
    return found


def assert_masked(model: nn.Module, masks: dict[str, torch.Tensor]) -> None:
    """Check that what a model computes with is exactly zero, and +0.0, where dropped."""
    for name, mask in masks.items():
        weight = weight_at(model, name).detach()
        assert bool((weight[~mask] == 0).all())
        assert not bool(torch.signbit(weight[~mask]).any())
        assert bool((weight[mask] != 0).any())


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_optimizer_revives_a_weight(name: str) -> None:
    """Stored and computed weights, and all that the optimizer remembers, are zero after a step."""
    model, value = small(), torch.randn(16, 8)
    optimizer = OPTIMIZERS[name](model.parameters())
    for _ in range(2):
        step(model, optimizer, value)
    masks = half_of(model)
    attach_masks_(model, masks, optimizer=optimizer)
    before = model[0].weight.clone()
    for _ in range(5):
        step(model, optimizer, value)
        assert_masked(model, masks)
        for layer, mask in zip((model[0], model[2]), masks.values(), strict=True):
            stored = layer.parametrizations.weight.original
            assert bool((stored[~mask] == 0).all())
            assert bool((stored.grad[~mask] == 0).all())
            for kept in optimizer.state[stored].values():
                assert kept.shape != mask.shape or bool((kept[~mask] == 0).all())
    assert not torch.equal(model[0].weight, before)


def test_without_the_optimizer_layers_compute_with_zeros_all_the_same() -> None:
    """Momentum may move what is stored, never what is computed; detaching writes the zeros."""
    model, value = small(), torch.randn(16, 8)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    step(model, optimizer, value)
    masks = half_of(model)
    attach_masks_(model, masks)
    step(model, optimizer, value)
    assert_masked(model, masks)
    expected = model(value)
    found = detach_masks_(model)
    assert type(model[0]) is nn.Linear
    assert all(torch.equal(found[name], masks[name]) for name in masks)
    assert_masked(model, masks)
    assert torch.equal(model(value), expected)
    assert set(model.state_dict()) == set(small().state_dict())
    step(model, optimizer, value)  # the optimizer still holds these parameters
    assert not torch.equal(model(value), expected)


def test_a_handle_takes_the_rezeroing_off() -> None:
    """What `attach_masks_` returns removes the hook from the optimizer."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5)
    (handle,) = attach_masks_(model, half_of(model), optimizer=optimizer)
    handle.remove()
    stored = model[0].parametrizations.weight.original
    with torch.no_grad():
        stored.fill_(1)
    step(model, optimizer, torch.randn(4, 8))
    assert bool((stored != 0).all())
    with pytest.raises(StateError, match="none of the masked weights"):
        keep_masked(model, torch.optim.SGD(small().parameters(), lr=0.1))


def test_averages_of_masked_models_are_masked() -> None:
    """An exponential moving average holds exact zeros too."""
    model, value = small(), torch.randn(16, 8)
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    masks = half_of(model)
    attach_masks_(model, masks, optimizer=optimizer)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for _ in range(3):
        step(model, optimizer, value)
        average.update_parameters(model)
    assert_masked(average.module, masks)
    stored = average.module[0].parametrizations.weight.original
    assert bool((stored[~masks["0.weight"]] == 0).all())


def test_gradient_scalers_and_autocast() -> None:
    """A scaled step through autocast, and a skipped one, leave zeros."""
    model, value = small(), torch.randn(16, 8)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    masks = half_of(model)
    attach_masks_(model, masks, optimizer=optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for factor in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(value).float().square().mean() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert_masked(model, masks)


class Attend(nn.Module):
    """An attention whose projections no module is called for."""

    def __init__(self) -> None:
        super().__init__()
        self.att = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the attention's output."""
        found: torch.Tensor = self.att(value, value, value)[0]
        return found


def test_attention_trains_under_masks() -> None:
    """Both projections are masked, in training and on the fused path of evaluation."""
    model, value = Attend(), torch.randn(4, 5, 16)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    step(model, optimizer, value)
    masks = half_of(model, "att.in_proj_weight", "att.out_proj.weight")
    attach_masks_(model, masks, optimizer=optimizer)
    for _ in range(3):
        step(model, optimizer, value)
        assert_masked(model, masks)
    training = model(value)
    with torch.no_grad():
        assert torch.allclose(model.eval()(value), training, atol=1e-5)
        detach_masks_(model)
        assert torch.allclose(model(value), training, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: type[nn.RNNBase]) -> None:
    """A recurrent layer computes with its masks, trains, and is copied and pickled."""
    torch.manual_seed(0)
    model, value = kind(8, 12, num_layers=2, batch_first=True), torch.randn(2, 3, 8)
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    step(model, optimizer, value)
    masks = half_of(model)
    assert len(masks) == 4
    attach_masks_(model, masks, optimizer=optimizer)
    for _ in range(2):
        step(model, optimizer, value)
    expected = model(value)[0]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(value)[0], expected)
        assert_masked(other, masks)
    plain = kind(8, 12, num_layers=2, batch_first=True)
    dense = {name: weight_at(model, name).detach() for name in plain.state_dict()}
    plain.load_state_dict(dense)
    assert torch.allclose(plain(value)[0], expected, atol=1e-6)
    detach_masks_(model)
    assert torch.allclose(model(value)[0], expected, atol=1e-6)


class Tied(nn.Module):
    """A table that is also the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        found: torch.Tensor = self.head(self.table(tokens))
        return found


def test_tied_weights_stay_tied() -> None:
    """One mask counts under both names, through training, copying, pickling and detaching."""
    model = Tied()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    mask = half(model.head.weight)
    attach_masks_(model, {"head.weight": mask}, optimizer=optimizer)
    step(model, optimizer, torch.arange(5))
    masks = {"head.weight": mask, "table.weight": mask}
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_masked(other, masks)
        head, table = other.head.parametrizations, other.table.parametrizations
        assert head.weight.original is table.weight.original
        assert len(list(other.parameters())) == 1
    detach_masks_(model)
    assert model.head.weight is model.table.weight
    assert_masked(model, masks)


def test_copies_are_equal_and_independent() -> None:
    """Deep copies, pickles and torch.save give the same outputs bit for bit and share nothing."""
    model, value = small(), torch.randn(3, 8)
    masks = half_of(model)
    attach_masks_(model, masks)
    model(value).sum().backward()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    copies.append(torch.load(file, weights_only=False))
    own = {tensor.data_ptr() for tensor in model.state_dict().values()}
    for other in copies:
        assert torch.equal(other(value), model(value))
        assert_masked(other, masks)
        assert own.isdisjoint(tensor.data_ptr() for tensor in other.state_dict().values())
        again = copy.deepcopy(other)
        assert torch.equal(again(value), model(value))
        detach_masks_(again)  # of its own class: the others keep theirs
        assert torch.equal(again(value), other(value))
        assert_masked(other, masks)


def test_training_resumes_from_a_checkpoint() -> None:
    """State dicts of model and optimizer, loaded strictly into fresh ones, go on bit for bit."""
    value = torch.randn(16, 8)
    model = small()
    optimizer = OPTIMIZERS["adamw"](model.parameters())
    attach_masks_(model, half_of(model), optimizer=optimizer)
    step(model, optimizer, value)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    for _ in range(2):
        step(model, optimizer, value)
    fresh = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    other = OPTIMIZERS["adamw"](fresh.parameters())
    attach_masks_(fresh, masks_in_state(saved[0]), optimizer=other)
    fresh.load_state_dict(saved[0], strict=True)
    other.load_state_dict(saved[1])
    for _ in range(2):
        step(fresh, other, value)
    assert torch.equal(fresh(value), model(value))


def test_compiled_models_are_masked() -> None:
    """A masked model compiles without a graph break, and trains under its masks."""
    model, value = small(), torch.randn(4, 8)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    masks = half_of(model)
    attach_masks_(model, masks, optimizer=optimizer)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    expected = model(value)
    assert torch.allclose(compiled(value), expected)
    step(compiled, optimizer, value)
    assert_masked(model, masks)
    assert torch.allclose(compiled(value), model(value), atol=1e-6)
    assert set(masks_of(compiled)) == set(masks)


def test_masked_recurrent_nets_compile_around_themselves() -> None:
    """torch.compile leaves recurrent modules out of its graphs; their masks hold all the same."""
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 4)

        def forward(self, value: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(self.rnn(value)[0])
            return found

    model, value = Net(), torch.randn(2, 5, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    masks = {n: torch.rand_like(p) > 0.5 for n, p in model.named_parameters() if p.dim() > 1}
    attach_masks_(model, masks, optimizer=optimizer)
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(2):
        assert torch.allclose(compiled(value), model(value), atol=1e-6)
        step(compiled, optimizer, value)
    for name, mask in masks.items():
        module, leaf = model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]
        assert bool((getattr(module, leaf)[~mask] == 0).all())
        assert bool((getattr(module, leaf)[mask] != 0).any())


def test_weight_norm_is_masked_on_top() -> None:
    """A weight that is computed is masked after its computation; detaching is refused by name."""
    norm = nn.utils.parametrizations.weight_norm
    model = nn.Sequential(norm(nn.Linear(8, 4)))
    mask = half(model[0].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    attach_masks_(model, {"0.weight": mask})
    step(model, optimizer, torch.randn(3, 8))
    assert_masked(model, {"0.weight": mask})
    with pytest.raises(StateError, match=r"0\.weight is computed by another parametrization"):
        detach_masks_(model)
    assert set(masks_of(model)) == {"0.weight"}


def test_wrong_masks_change_nothing() -> None:
    """Misspelt names, other shapes and types, and second masks are refused beforehand."""
    model = small()
    mask = half(model[0].weight)
    with pytest.raises(UnknownName, match=r"did you mean '2\.weight'"):
        attach_masks_(model, {"0.weight": mask, "2.weigth": mask})
    with pytest.raises(StateError, match=r"2\.weight has shape \(8, 8\), the weight \(4, 8\)"):
        attach_masks_(model, {"0.weight": mask, "2.weight": mask})
    with pytest.raises(StateError, match="boolean"):
        attach_masks_(model, {"0.weight": mask.float()})
    assert masks_of(model) == {}
    tied = Tied()
    other = half(tied.head.weight)
    with pytest.raises(StateError, match="one tensor"):
        attach_masks_(tied, {"head.weight": other, "table.weight": ~other})
    attach_masks_(model, {"module.0.weight": mask})
    with pytest.raises(StateError, match=r"0\.weight has a mask already"):
        attach_masks_(model, {"0.weight": mask})


def test_density_counts_all_weights() -> None:
    """Weights without a mask count as dense."""
    model = small()
    attach_masks_(model, half_of(model, "0.weight"))
    assert density(model) == pytest.approx(1 - 32 / 96)


def test_masked_gradients_survive_infinities() -> None:
    """A dropped weight that is infinite, or meets an infinite gradient, is zero with gradient 0."""
    layer = nn.Linear(4, 1, bias=False)
    attach_masks_(layer, {"weight": torch.tensor([[True, False, True, False]])})
    with torch.no_grad():
        layer.parametrizations.weight.original[0, 1] = float("inf")
    layer(torch.ones(1, 4)).sum().backward()
    assert bool(layer.weight.isfinite().all())
    assert layer.parametrizations.weight.original.grad.tolist() == [[1, 0, 1, 0]]


def test_masks_are_replaced_stage_by_stage() -> None:
    """A new mask counts at once, for layer and optimizer; a wrong one changes nothing."""
    model, value = small(), torch.randn(16, 8)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    masks = half_of(model)
    attach_masks_(model, masks, optimizer=optimizer)
    step(model, optimizer, value)
    fewer = {"0.weight": masks["0.weight"].clone()}
    fewer["0.weight"][:4] = False
    with pytest.raises(StateError, match="shape"):
        update_masks_(model, {**fewer, "2.weight": fewer["0.weight"]})
    assert_masked(model, masks)
    assert torch.equal(masks_of(model)["0.weight"], masks["0.weight"])
    update_masks_(model, fewer)
    step(model, optimizer, value)
    assert_masked(model, fewer)
    stored = model[0].parametrizations.weight.original
    assert bool((stored[:4] == 0).all())
    with pytest.raises(UnknownName, match="masked weight"):
        update_masks_(model, {"0.bias": torch.ones(8, dtype=torch.bool)})
