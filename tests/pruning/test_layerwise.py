"""Calibration block after block: the statistics of one pass, in the memory of one block."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import pruning
from permsearch.errors import UnknownName
from pruning.blocks import chosen_blocks, repeated_blocks
from pruning.calibrate import calibrate
from pruning.errors import CalibrationError
from pruning.layerwise import Stage, calibrate_blocks


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return normal numbers that do not depend on what ran before."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Layer(nn.Module):
    """A residual block that takes a mask beside its input."""

    def __init__(self, *, writes: bool = False) -> None:
        super().__init__()
        self.up, self.down, self.writes = nn.Linear(8, 12), nn.Linear(12, 8), writes

    def forward(self, value: torch.Tensor, mask: torch.Tensor, *, flag: bool) -> Any:
        """Return the block's output in a tuple, as old transformers do."""
        if self.writes:
            value.mul_(mask)
        found = self.down(functional.relu(self.up(value * mask)))
        return (value + found if flag else found,)


class Memo:
    """A cache that grows as blocks use it."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []


class Cached(Layer):
    """A block that goes by a cache, as decoders do."""

    def forward(self, value: torch.Tensor, memo: Memo) -> torch.Tensor:
        """Return the output, which is right for a cache that this block has not filled yet."""
        memo.seen.append(value)
        return value + self.down(functional.relu(self.up(value)))


class Stack(nn.Module):
    """A stem, blocks and a head."""

    def __init__(self, make: Callable[[], nn.Module] = Layer, count: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(6, 8)
        self.layers = nn.ModuleList(make() for _ in range(count))
        self.head = nn.Linear(8, 5)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value, mask = self.stem(value), (value.sum(-1, keepdim=True) > 0).float()
        for layer in self.layers:
            value = layer(value, mask, flag=True)[0]
        found: torch.Tensor = self.head(value)
        return found


class Decoder(Stack):
    """Blocks that share a cache, made anew in every run."""

    def __init__(self) -> None:
        super().__init__(Cached)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value, memo = self.stem(value), Memo()
        for layer in self.layers:
            value = layer(value, memo)
        found: torch.Tensor = self.head(value)
        return found


class Between(Stack):
    """Something happens to the stream between blocks, so none can hand on to the next."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value, mask = self.stem(value), (value.sum(-1, keepdim=True) > 0).float()
        for layer in self.layers:
            value = 2 * layer(value, mask, flag=True)[0]
        found: torch.Tensor = self.head(value)
        return found


class Counting(nn.Module):
    """A block that gives something else at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(8, 8), 0

    def forward(self, value: torch.Tensor, mask: torch.Tensor, *, flag: bool) -> Any:
        """Return the output."""
        self.calls += int(flag)
        return (self.inner(value * mask) + self.calls,)


class Looped(Stack):
    """One block that is called three times."""

    def __init__(self) -> None:
        super().__init__(count=2)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        value, mask = self.stem(value), (value.sum(-1, keepdim=True) > 0).float()
        for _ in range(3):
            for layer in self.layers:
                value = layer(value, mask, flag=True)[0]
        found: torch.Tensor = self.head(value)
        return found


def encoder() -> nn.Module:
    """Return torch's own encoder, whose fused path shows no hook anything."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
    return nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoder(layer, 3))


def convolutional() -> nn.Module:
    """Return stages of residual blocks that write into their inputs."""
    torch.manual_seed(0)

    def block() -> nn.Module:
        return nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1))

    stages = [nn.Sequential(block(), block()) for _ in range(2)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), *stages, nn.Flatten(), nn.Linear(36, 3))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "stack": (Stack, (7, 6)),
    "writes": (lambda: Stack(lambda: Layer(writes=True)), (7, 6)),
    "decoder": (Decoder, (7, 6)),
    "between": (Between, (7, 6)),
    "looped": (Looped, (7, 6)),
    "encoder": (encoder, (2, 4, 6)),
    "convolutional": (convolutional, (2, 3, 5, 5)),
    "plain": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)), (7, 6)),
}


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_stages_add_up_to_one_pass(name: str, pruned: bool) -> None:
    """With nothing changed in between, the stages hold what a single pass collects, each once."""
    make, shape = MODELS[name]
    model, data = make(), [drawn(*shape, seed=seed) for seed in range(3)]
    expected = calibrate(model, data, gram=True)
    found: dict[str, Any] = {}
    for stage in calibrate_blocks(model, data, gram=True, pruned=pruned):
        assert not found.keys() & stage.inputs.keys()
        found.update(stage.inputs)
    assert found.keys() == expected.keys()
    for key, own in expected.items():
        assert found[key].rows == own.rows
        assert own.gram is not None
        assert found[key].gram is not None
        torch.testing.assert_close(found[key].squares, own.squares, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(found[key].gram, own.gram, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pruned", [False, True])
def test_decoders_of_transformers_are_replayed(pruned: bool) -> None:
    """A Llama whose blocks share a cache hands on from block to block, to the same statistics."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=1, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    data = [{"input_ids": torch.randint(64, (2, 7))} for _ in range(2)]
    expected = calibrate(model, data, gram=True)
    found = list(calibrate_blocks(model, data, gram=True, pruned=pruned))
    inner = [stage for stage in found if stage.name]
    assert [stage.name for stage in inner] == [f"model.layers.{n}" for n in range(3)]
    assert [stage.replayed for stage in inner] == [False, True, True]
    every = {name: own for stage in found for name, own in stage.inputs.items()}
    for name, own in expected.items():
        torch.testing.assert_close(every[name].gram, own.gram, rtol=1e-4, atol=1e-6)


def stages(model: nn.Module, **more: Any) -> list[Stage]:
    """Return all stages."""
    return list(calibrate_blocks(model, [drawn(7, 6)], **more))


def test_blocks_hand_on_where_that_is_all_there_is() -> None:
    """Blocks in a row are replayed; where something happens in between, the model runs again."""
    assert [s.replayed for s in stages(Stack())] == [False, False, True, True]
    assert [s.name for s in stages(Stack())] == ["", "layers.0", "layers.1", "layers.2"]
    assert [s.replayed for s in stages(Decoder(), pruned=True)[1:-1]] == [False, True, True]
    assert not any(s.replayed for s in stages(Between(), pruned=True))
    assert [s.replayed for s in stages(Stack(lambda: Layer(writes=True)))[1:]] == [
        False,
        True,
        True,
    ]
    by_layer = stages(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)))
    assert [(s.name, s.replayed) for s in by_layer] == [("0", False), ("1", True), ("3", False)]


def test_a_block_that_goes_by_more_than_its_inputs_is_seen_in_whole_runs() -> None:
    """A block with a memory of its own is found out, and never called on its own."""
    dense = stages(Stack(Counting))
    assert [s.name for s in dense] == [""]
    assert len(dense[0].inputs) == 5
    assert not any(s.replayed for s in stages(Stack(Counting), pruned=True))


def test_later_blocks_see_the_earlier_ones_pruned() -> None:
    """Pruned inputs are those of the changed model; dense ones stay what they were."""
    for pruned in (False, True):
        model, data = Stack(), [drawn(7, 6)]
        before = calibrate(model, data)
        found = {}
        for stage in calibrate_blocks(model, data, pruned=pruned):
            found.update(stage.inputs)
            for name in stage.inputs:
                with torch.no_grad():
                    model.get_parameter(name)[::2] = 0
        after = calibrate(model, data)
        assert torch.equal(found["stem.weight"].squares, before["stem.weight"].squares)
        for name in ("layers.1.up.weight", "layers.2.up.weight", "head.weight"):
            expected = after if pruned else before
            torch.testing.assert_close(found[name].squares, expected[name].squares)
            assert not torch.allclose(after[name].squares, before[name].squares, rtol=0.01)


def live_grams() -> int:
    """Return the bytes of all float64 matrices that are square in their last dimensions."""
    gc.collect()
    tensors = [t for t in gc.get_objects() if type(t) is torch.Tensor]
    held = {t.data_ptr(): t for t in tensors if t.dtype == torch.float64 and t.dim() == 3}
    return sum(8 * t.numel() for t in held.values() if t.shape[1] == t.shape[2])


@pytest.mark.parametrize("pruned", [False, True])
def test_one_block_is_in_memory_at_a_time(pruned: bool) -> None:
    """While blocks are visited, no more Gram matrices live than those of one of them."""
    model, most = Stack(count=6), 0
    before = live_grams()
    for stage in calibrate_blocks(model, [drawn(7, 6)], gram=True, pruned=pruned):
        most = max(most, live_grams() - before)
        del stage
    assert most == 8 * (8 * 8 + 12 * 12)
    together = calibrate(model, [drawn(7, 6)], gram=True)
    assert live_grams() - before > 6 * most
    del together


def test_blocks_are_found_or_named() -> None:
    """The class that repeats with the most weights; globs name others, and misses are told."""
    layers = [f"layers.{i}.{leaf}" for i in range(3) for leaf in ("up", "down")]
    assert repeated_blocks(Stack(), layers) == ("layers.0", "layers.1", "layers.2")
    assert repeated_blocks(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), ["0", "1"]) == ()
    assert chosen_blocks(Stack(), ["layers.?"]) == ("layers.0", "layers.1", "layers.2")
    assert [s.name for s in stages(Stack(), blocks=["layers.1"])] == ["", "layers.1"]
    with pytest.raises(UnknownName, match="layer\\.\\*"):
        stages(Stack(), blocks=["layer.*"])


def test_what_is_missing_is_told() -> None:
    """No batches and a layer that no run reaches are errors; others are left out."""
    with pytest.raises(CalibrationError, match="there are no batches"):
        list(calibrate_blocks(Stack(), []))
    model = Stack()
    model.layers.append(Layer())
    model.forward = lambda value: Stack.forward(model_without_last(model), value)  # type: ignore[method-assign]
    with pytest.raises(CalibrationError, match=r"layers\.3\.up\.weight: calibration never"):
        stages(model, names=["layers.0.up.weight", "layers.3.up.weight"])
    assert not any("layers.3" in name for s in stages(model) for name in s.inputs)


def model_without_last(model: nn.Module) -> Any:
    """Return what stands for a model that never calls its last block."""
    from types import SimpleNamespace

    layers = list(model.layers)[:-1]  # type: ignore[arg-type]
    return SimpleNamespace(stem=model.stem, layers=layers, head=model.head)


def test_modes_and_hooks_are_as_before() -> None:
    """Whatever ends the stages, no hook is left and every module is in the mode that it was in."""
    model = Stack().train()
    for _ in calibrate_blocks(model, [drawn(7, 6)], gram=True):
        assert model.training
        break
    assert all(m.training and not m._forward_pre_hooks for m in model.modules())
    assert not any(m._forward_hooks for m in model.modules())
    assert pruning.masks_of(model) == {}
