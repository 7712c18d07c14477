"""The encoder pruned as a user does it: `transformers`, `pruning.prune`, a recipe, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

import pruning
from benchmarks.accuracy import encoder
from benchmarks.network_models import minilm_folder
from pruning.permute import output_moves

RECIPE: Mapping[str, Any] = {
    "steps": 40_000,
    "layer": [{"match": "encoder.layer.*", "pattern": "2:4", "method": "sparsegpt+refit"}],
}


def pruned(sentences: list[str]) -> tuple[dict[str, Tensor], Tensor]:
    """Return the tensors after pruning with absorbed orders, and where each output was before.

    Batches hold sentences of one length: statistics would count padding otherwise.
    """
    from transformers import AutoModel

    model = AutoModel.from_pretrained(str(minilm_folder()), add_pooling_layer=False).eval()
    batch, _ = encoder.packed(sentences)
    batches = [
        batch.tokens[start : start + count * length].reshape(count, length)
        for start, count, length in batch.spans()
    ]
    network = pruning.trace(model, (batches[0][:2],), outputs="free")
    result = pruning.prune(
        model, RECIPE, example_inputs=batches[0][:2], calibration=batches, network=network
    )
    print(result)
    pruning.detach_masks_(model)
    assert result.search is not None
    (move,) = output_moves(network, result.search)[0][0]
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    return state, torch.from_numpy(move.index)
