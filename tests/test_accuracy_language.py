"""What the perplexity benchmark is made of: fits, orders, stages and tables."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pruning
from benchmarks.accuracy.base import Cell, Measured
from benchmarks.accuracy.language_orders import columns, weights_of
from benchmarks.accuracy.language_prune import (
    Method,
    prune_from,
    prune_sequentially,
    pruned,
    target,
)
from benchmarks.accuracy.language_stages import autocast, owner, walk
from benchmarks.accuracy.language_statistics import inputs_of
from benchmarks.accuracy.language_tables import perplexities, ratios
from permsearch.domains import sample
from permsearch.patterns import parse_pattern
from pruning.update import output_error, sparsegpt


@pytest.fixture(name="layer")
def _layer() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a weight, the Gram matrix of correlated inputs, and a 2:4 mask."""
    torch.manual_seed(0)
    inputs = torch.randn(300, 32) @ torch.randn(32, 32) + torch.randn(32)
    weight = torch.randn(12, 32)
    mask = torch.from_numpy(parse_pattern("2:4").keep(weight.abs().numpy()))
    return weight, (inputs.T @ inputs).double() / 300, mask


def test_splitting_finds_a_legal_mask_that_beats_the_sweep(
    layer: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    """Masks found with their values obey the pattern in their order and fit better."""
    weight, gram, _ = layer
    inputs, order = inputs_of("w", gram), np.random.default_rng(0).permutation(32)
    best = pruned(weight, inputs, "2:4", Method.of("admm+refit"), order)
    assert parse_pattern("2:4").accepts((best[:, order] != 0).numpy())
    swept = sparsegpt(weight, inputs, 2, 4, cols=torch.from_numpy(order))[0]
    assert output_error(weight, best, inputs) < 0.95 * output_error(weight, swept, inputs)


def test_target_makes_up_for_inputs_that_were_pruned() -> None:
    """Where inputs were scaled and the stream lacks a part, the target undoes both."""
    torch.manual_seed(1)
    dense, weight = torch.randn(4000, 6).double(), torch.randn(3, 6).double()
    other, lack = dense * 0.5, (dense @ torch.randn(6, 3).double())
    gram, cross = other.T @ other / 4000, dense.T @ other / 4000
    found = target(weight, gram, cross, lack.T @ other / 4000)
    given, wanted = other @ found.T, dense @ weight.T + lack
    assert float((given - wanted).square().mean()) < 1e-3 * float(wanted.square().mean())


class _Chain(nn.Module):
    """Two layers whose hidden units may be reordered."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(5, 12)
        self.out_proj = nn.Linear(12, 3)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Run both."""
        found: torch.Tensor = self.out_proj(torch.relu(self.in_proj(value)))
        return found


def test_columns_are_what_permuting_does_to_them() -> None:
    """The orders read off a solution are those in which `permute_` leaves the columns."""
    model = _Chain()
    network = pruning.trace(model, torch.randn(2, 5))
    rng = np.random.default_rng(0)
    drawn = {name: sample(domain, rng) for name, domain in network.domains.items()}
    before = model.out_proj.weight.detach().clone()
    orders = columns(network, drawn)
    pruning.permute_(model, drawn, network=network)
    assert list(orders) == ["out_proj"]
    assert torch.equal(model.out_proj.weight, before[:, torch.from_numpy(orders["out_proj"])])


@pytest.mark.parametrize(
    ("weight", "first"),
    [("self_attn.v_proj", "self_attn.q_proj"), ("mlp.up_proj", "mlp.gate_proj")],
)
def test_weights_share_statistics_with_those_that_read_the_same(weight: str, first: str) -> None:
    """Queries, keys and values read one input, gates and what they gate another."""
    assert owner(f"model.layers.3.{weight}") == f"model.layers.3.{first}"
    assert owner(f"model.layers.3.{first}") == f"model.layers.3.{first}"


def test_tables_pair_windows_and_show_random_draws() -> None:
    """Ratios are paired over windows; several draws show their range."""
    base = np.array([3.0, 4.0])

    def cell(order: str, by: float, seed: int = 0) -> tuple[Cell, Measured]:
        return Cell("2:4", "wanda", order, seed), Measured({"loss": list(base + math.log(by))}, {})

    results = dict(
        [
            (Cell("dense", ""), Measured({"loss": [2.0, 2.0]}, {})),
            cell("stored", 1.0),
            cell("random", 0.9, 1),
            cell("random", 1.1, 2),
            cell("gathered", 0.8),
        ]
    )
    (row,) = [line for line in ratios(results) if "wanda" in line]
    assert "0.800 ± 0.000" in row
    assert "(0.900 to 1.100)" in row
    dense, own = list(perplexities(results))[2:]
    assert "7.4 (1.00 x)" in dense
    assert f"{math.exp(3.5):.1f} ({math.exp(1.5):.2f} x)" in own


@pytest.fixture(name="llama", scope="module")
def _llama() -> nn.Module:
    """Return a small model of SmolLM2's kind."""
    transformers = pytest.importorskip("transformers", reason="builds a model of transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    model: nn.Module = transformers.LlamaForCausalLM(config)
    return model.eval()


def test_walking_shows_what_the_model_itself_reads(llama: nn.Module) -> None:
    """Layer by layer, every stage sees what hooks see in a whole run."""
    windows, seen = torch.arange(40).reshape(2, 20), {}

    def visit(name: str, streams: Any) -> None:
        seen[name] = torch.cat([value for value, _ in streams[0]])

    walk([llama], windows, visit)
    assert len(seen) == 8
    hooked = {}
    handles = [
        llama.get_submodule(name).register_forward_pre_hook(
            lambda _, args, name=name: hooked.update({name: args[0].flatten(0, 1).float()})
        )
        for name in seen
    ]
    with torch.no_grad(), autocast():
        llama(windows)
    for handle in handles:
        handle.remove()
    for name, value in seen.items():
        torch.testing.assert_close(value, hooked[name], rtol=0.02, atol=0.02)


def test_sequential_pruning_comes_nearer_to_the_dense_network(llama: nn.Module) -> None:
    """Fitted stage by stage, the masks are legal and the last layer's output is nearer."""
    windows = torch.randint(0, 50, (16, 30), generator=torch.Generator().manual_seed(0))
    method, dense = Method.of("sparsegpt+refit"), weights_of(llama)
    grams: dict[str, torch.Tensor] = {}

    def visit(name: str, streams: Any) -> None:
        value = torch.cat([value for value, _ in streams[0]])
        grams[name] = value.T @ value / len(value)

    walk([llama], windows, visit)
    apart, stepwise = copy.deepcopy(llama), copy.deepcopy(llama)
    prune_from(apart, dense, grams, "2:4", method, {})
    prune_sequentially(stepwise, llama, windows, "2:4", method, {})
    for weight in weights_of(stepwise).values():
        assert parse_pattern("2:4").accepts((weight != 0).numpy())
    with torch.no_grad():
        wanted, one, two = (m.model(windows).last_hidden_state for m in (llama, apart, stepwise))
    assert float((two - wanted).square().mean()) < 0.9 * float((one - wanted).square().mean())
