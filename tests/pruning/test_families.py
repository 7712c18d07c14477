"""Families of `transformers`: groups found, no operator without a rule, outputs unchanged."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest
import torch

import permsearch as ps
import pruning
from tests.families import FAMILIES, IDS
from tests.pruning.test_zoo import told

transformers = pytest.importorskip(
    "transformers", reason="needs transformers: pip install 'permsearch[hf]'"
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the warnings of transformers are not ours
]


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str) -> None:
    """Groups are the declared ones; random orders leave the outputs, and no operator is unknown."""
    family = FAMILIES[name]
    model = family.build()
    network = pruning.trace(model, family.inputs, family.kwargs)
    assert network.unknown == {}
    assert network.groups
    if family.declared:
        assert sorted(told(network)) == family.declared, network.summary()
    solution = ps.random_solution(network.problem(), seed=1)
    report = pruning.permute_(model, solution, network=network)
    assert report is not None
    assert report.difference <= report.limit
    assert report.limit <= 1e-5
    assert family.narrow or report.dtype == "float64"


def test_large_model_needs_no_weights() -> None:
    """An 8B configuration on the meta device: under 60 CPU seconds and 1 GB."""
    config = transformers.LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        use_cache=False,
    )
    before, start = peak(), time.process_time()
    with torch.device("meta"):
        model: Any = transformers.LlamaForCausalLM(config)
    network = pruning.trace(model, IDS.to("meta"))
    assert time.process_time() - start < 60
    assert peak() - before < 1 << 30
    assert len(network.groups) == 1 + 4 * 32
    assert not network.unknown


def peak() -> int:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
