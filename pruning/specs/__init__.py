"""Architectures known by their checkpoints: tensor names and `config.json`, no model code.

Each spec states where axes meet; scales of positions (rotary angles, distance buckets) are plain
stand-ins, which no order depends on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from permsearch.errors import FileError, unknown
from pruning.specs.base import Checkpoint, Config, Forward
from pruning.specs.decoders import gpt2, llama, mixtral
from pruning.specs.encoders import bert, t5, vit


@dataclass(frozen=True, slots=True)
class Spec:
    """An architecture: its forward pass, and the kind of its inputs."""

    forward: Forward
    inputs: str = "ids"


#: The spec of each `model_type`.
SPECS: dict[str, Spec] = {
    "bert": Spec(bert),
    "gpt2": Spec(gpt2),
    "llama": Spec(llama),
    "mistral": Spec(llama),
    "qwen2": Spec(llama),
    "qwen3": Spec(llama),
    "mixtral": Spec(mixtral),
    "vit": Spec(vit, "pixels"),
    "t5": Spec(t5, "two ids"),
}


#: Tensors that old checkpoints carry along and no forward reads as weights.
IGNORED = ("*.attn.bias", "*.attn.masked_bias", "*rotary_emb.inv_freq", "*position_ids")


def spec_of(config: Config) -> Spec:
    """Return the spec of a configuration's architecture.

    Examples
    --------
    >>> spec_of({"model_type": "vit"}).inputs
    'pixels'
    """
    kind = str(config.get("model_type", ""))
    if kind not in SPECS:
        raise unknown("model_type", kind, SPECS)
    return SPECS[kind]


def read_config(folder: Path) -> dict[str, Any]:
    """Return a model folder's configuration.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = pathlib.Path(place)
    ...     _ = (folder / "config.json").write_text('{"model_type": "bert"}')
    ...     read_config(folder)
    {'model_type': 'bert'}
    """
    file = folder / "config.json"
    if not file.is_file():
        raise FileError(f"{folder} has no config.json; a Hugging Face model folder is needed.")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def checkpoint(tensors: Mapping[str, torch.Tensor], config: Config) -> Checkpoint:
    """Return a checkpoint's tensors as a module that runs its architecture.

    Examples
    --------
    >>> import torch
    >>> config = {"model_type": "gpt2", "n_layer": 0, "vocab_size": 8, "n_embd": 4, "n_head": 1}
    >>> tensors = {"wte.weight": torch.ones(8, 4), "wpe.weight": torch.ones(16, 4)}
    >>> sorted(checkpoint(tensors, config).state_dict())
    ['wpe.weight', 'wte.weight']
    """
    return Checkpoint(tensors, config, spec_of(config).forward)


def example_inputs(config: Config, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """Return inputs of the kind that an architecture reads: a batch of 2, 11 tokens long.

    Examples
    --------
    >>> import torch
    >>> example_inputs({"model_type": "bert", "vocab_size": 100})[0].shape
    torch.Size([2, 11])
    """
    kind = spec_of(config).inputs
    if kind == "pixels":
        side, depth = int(config.get("image_size", 224)), int(config.get("num_channels", 3))
        pixels = torch.arange(2 * depth * side * side, dtype=torch.float32, device=device)
        return (pixels.reshape(2, depth, side, side).sin(),)
    ids = (7 * torch.arange(22, device=device) % (int(config["vocab_size"]) - 3) + 2).reshape(2, 11)
    return (ids,) if kind == "ids" else (ids, ids[:, :7])


__all__ = [
    "IGNORED",
    "SPECS",
    "Checkpoint",
    "Spec",
    "checkpoint",
    "example_inputs",
    "read_config",
    "spec_of",
]
