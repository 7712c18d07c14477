"""Specs: a checkpoint without code has the groups that its model has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import permsearch as ps
import pruning
from permsearch.errors import UnknownName
from pruning.model_folder import read_folder, write_folder
from pruning.ops import tensors_in
from pruning.reorder import moves_of
from pruning.specs import checkpoint, example_inputs, read_config
from pruning.verify import distance
from tests.families import FAMILIES
from tests.pruning.test_zoo import told

pytest.importorskip("transformers", reason="needs transformers: pip install 'permsearch[hf]'")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

SAME = ["llama", "mistral", "qwen2", "qwen3", "gpt2", "bert", "bert, classifier", "t5"]


def content(network: pruning.Network) -> set[Any]:
    """Return every group as its size, blocks and places."""
    return {
        (group.size, group.blocks, group.kind, frozenset((m.tensor, m.dim) for m in group.members))
        for group in network.groups
    }


@pytest.mark.parametrize("name", SAME)
def test_spec_and_trace_agree(name: str) -> None:
    """The same groups with the same members, from names alone and from the code."""
    family = FAMILIES[name]
    model = family.build()
    config = model.config.to_dict()
    state = model.state_dict(keep_vars=True)
    spec = checkpoint(state, config)
    found = pruning.trace(spec, example_inputs(config))
    assert found.unread == ()
    assert content(found) == content(pruning.trace(model, family.inputs, family.kwargs))


@pytest.mark.parametrize("name", ["vit", "mixtral", "qwen3"])
def test_saved_model_is_permuted_and_loaded_again(name: str, tmp_path: Path) -> None:
    """A folder that transformers wrote, permuted by its spec, gives transformers' outputs again."""
    family = FAMILIES[name]
    model = family.build()
    model.save_pretrained(tmp_path / "model")
    config = read_config(tmp_path / "model")
    module = checkpoint(read_folder(tmp_path / "model"), config)
    network = pruning.trace(module, example_inputs(config))
    declared = [text for text in family.declared if name != "mixtral" or "in 4" not in text]
    assert set(declared) <= set(told(network))
    solution = ps.random_solution(network.problem(), seed=4)
    found = moves_of(network, solution)
    write_folder(tmp_path / "model", tmp_path / "out", found)
    other = type(model).from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        one, two = (next(tensors_in(m(*family.inputs, **family.kwargs))) for m in (model, other))
    assert not torch.equal(next(model.parameters()), next(other.parameters()))
    assert distance(one, two) < 1e-5


def test_experts_of_a_checkpoint() -> None:
    """Mixtral's files hold each expert's weights apart: one group for each expert."""
    config = {**FAMILIES["mixtral"].config, "model_type": "mixtral"}
    tensors = dict(mixtral_tensors(config))
    network = pruning.trace(checkpoint(tensors, config), example_inputs(config))
    each = ["96"] * 4 + ["8 in 2", "4 in 2", "2 blocks"]
    assert sorted(told(network)) == sorted(["64", *each, *each])
    module = checkpoint(tensors, config)
    report = pruning.permute_(module, ps.random_solution(network.problem()), network=network)
    assert report is not None
    assert report.same


def test_experts_stacked_and_apart_have_the_same_groups() -> None:
    """Both layouts of Mixtral's experts agree with the trace of the model that reads them."""
    family = FAMILIES["mixtral"]
    model = family.build()
    config = model.config.to_dict()
    stacked = checkpoint(model.state_dict(keep_vars=True), config)
    traced = pruning.trace(model, family.inputs, family.kwargs)
    assert content(pruning.trace(stacked, example_inputs(config))) == content(traced)
    apart = pruning.trace(checkpoint(dict(mixtral_tensors(config)), config), example_inputs(config))
    merged: dict[Any, set[Any]] = {}
    for group in apart.groups:
        places = frozenset((renamed(m.tensor), m.dim) for m in group.members)
        assert merged.setdefault(places, set()).isdisjoint({group.name})
        merged[places].add(group.name)
    found = {places: len(names) for places, names in merged.items()}
    wanted = {}
    for group in traced.groups:
        experts = group.blocks if any("experts" in m.tensor for m in group.members) else 1
        experts = 1 if group.name.endswith("embed_tokens.weight[1]") else experts
        wanted[frozenset(spread(group))] = experts
    assert found == wanted


def renamed(tensor: str) -> str:
    """Return the part of a layer that a tensor of one expert is."""
    return re.sub(r"block_sparse_moe\.experts\.\d+\.", "experts.", tensor).replace(
        "block_sparse_moe.gate", "mlp.gate"
    )


def spread(group: pruning.Group) -> Iterator[tuple[str, int]]:
    """Yield the places of a group, with stacked experts as files have them apart."""
    for member in group.members:
        base, _, kind = member.tensor.partition("mlp.experts.")
        if not kind:
            yield member.tensor, member.dim
        elif kind == "gate_up_proj":
            yield from ((f"{base}experts.{part}.weight", member.dim - 1) for part in ("w1", "w3"))
        else:
            yield f"{base}experts.w2.weight", member.dim - 1


def mixtral_tensors(config: dict[str, Any]) -> Any:
    """Yield tensors as a Mixtral checkpoint names them."""
    torch.manual_seed(0)
    yield "model.embed_tokens.weight", torch.randn(128, 64)
    for layer in range(2):
        here = f"model.layers.{layer}."
        for part, rows in (("q", 64), ("k", 16), ("v", 16), ("o", 64)):
            yield f"{here}self_attn.{part}_proj.weight", torch.randn(rows, 64) / 8
        yield f"{here}block_sparse_moe.gate.weight", torch.randn(4, 64) / 8
        for expert in range(config["num_local_experts"]):
            for part, shape in (("w1", (96, 64)), ("w2", (64, 96)), ("w3", (96, 64))):
                name = f"{here}block_sparse_moe.experts.{expert}.{part}.weight"
                yield name, torch.randn(shape) / 8
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{here}{norm}.weight", torch.rand(64) + 0.5
    yield "model.norm.weight", torch.rand(64) + 0.5
    yield "lm_head.weight", torch.randn(128, 64)


def test_unknown_architecture_is_named() -> None:
    """The message lists what is known."""
    with pytest.raises(UnknownName, match="model_type 'ijepa'"):
        checkpoint({}, {"model_type": "ijepa"})
