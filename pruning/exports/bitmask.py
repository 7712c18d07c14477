"""The folder format `sparse-24-bitmask` of compressed-tensors, which 0.14 was the last to read.

Of each 2:4 weight the two values a group, as ``NAME.compressed`` (rows, columns / 2); one bit an
entry, lowest first, as ``NAME.bitmask`` (rows, columns / 8); and ``NAME.shape``. vLLM and
transformers no longer read it; a dense folder with zeros is what they take.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pruning.exports.dense import save_pretrained
from pruning.exports.files import folder_aside, write_tensors
from pruning.exports.job import Exported, Job
from pruning.exports.layers import MaskedLayer
from pruning.exports.semi_structured import violations
from pruning.model_folder import LazyTensors

FORMAT = "sparse-24-bitmask"
_PARTS = ("shape", "compressed", "bitmask")


def write(job: Job) -> Exported:
    """Write the folder; weights that are not 2:4 along axis 1 stay dense and are listed there."""
    left, chosen = {}, {}
    for layer, weight in job.weights():
        why = _obstacle(layer, weight)
        if why:
            left[layer.name] = why
        else:
            chosen[layer.name] = layer
    job.check_left(chosen, left)
    job.refuse_gathers()
    with folder_aside(job.output) as aside, tempfile.TemporaryDirectory(dir=aside.parent) as temp:
        source = job.folder or Path(temp)
        if job.model is not None:
            save_pretrained(job.model, source)
        _write(source, aside, {layer.name: layer for layer in job.layers}, chosen, job.model)
    return job.done(chosen, left=left)


def _obstacle(layer: MaskedLayer, weight: torch.Tensor) -> str:
    if weight.dim() != 2 or layer.axis != 1 or not layer.name.endswith(".weight"):
        return "only weights of linear layers have this form"
    if weight.shape[1] % 4:
        return f"{weight.shape[1]} columns are no multiple of 4"
    bad = violations(weight, 2, 4)
    return f"{bad} groups of 4 hold more than 2 non-zeros" if bad else ""


def compressed(weight: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a 2:4 weight's three parts; a group that keeps fewer than two is filled with zeros."""
    # the mask first, then zeros from the left: exactly two a group
    rank = mask.reshape(-1, 4).to(torch.int8) * 4 - torch.arange(4, dtype=torch.int8)
    two = torch.zeros(rank.shape, dtype=torch.bool)
    two.scatter_(
        1, rank.topk(2, dim=1).indices, torch.ones((), dtype=torch.bool).expand(len(two), 2)
    )
    kept = two.reshape(mask.shape)
    bits = np.packbits(kept.numpy(), axis=-1, bitorder="little")
    return {
        "shape": torch.tensor(weight.shape, dtype=torch.int64).reshape(-1, 1),
        "compressed": weight[kept].reshape(len(weight), -1),
        "bitmask": torch.from_numpy(bits),
    }


@dataclass(frozen=True, slots=True)
class BitmaskParts:
    """The three parts of a weight."""

    shape: torch.Tensor
    compressed: torch.Tensor
    bitmask: torch.Tensor

    def unpack(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the dense weight and its mask."""
        rows, cols = (int(n) for n in self.shape.flatten())
        bits = np.unpackbits(self.bitmask.numpy(), axis=-1, count=cols, bitorder="little")
        mask = torch.from_numpy(bits.astype(bool)).reshape(rows, cols)
        dense = torch.zeros(rows, cols, dtype=self.compressed.dtype)
        dense[mask] = self.compressed.flatten()
        return dense, mask


def parts_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, BitmaskParts]:
    """Return the compressed weights among tensors, by the names they have when dense."""
    layers = [name.removesuffix(".bitmask") for name in tensors if name.endswith(".bitmask")]
    return {
        f"{layer}.weight": BitmaskParts(*(tensors[f"{layer}.{part}"] for part in _PARTS))
        for layer in layers
        if all(f"{layer}.{part}" in tensors for part in _PARTS)
    }


def _write(
    source: Path,
    target: Path,
    layers: Mapping[str, MaskedLayer],
    chosen: Mapping[str, MaskedLayer],
    model: nn.Module | None,
) -> None:
    lazy = LazyTensors(source)
    files: dict[str, str] = {}
    zeros = total = 0
    for shard in lazy.shards:
        out: dict[str, torch.Tensor] = {}
        for name in (n for n, path in lazy.files.items() if path == shard):
            tensor = lazy[name]
            if name in layers:
                tensor = layers[name].apply(tensor)
                zeros += int((tensor == 0).sum())
            total += tensor.numel()
            if name in chosen:
                parts = compressed(tensor, chosen[name].mask)
                out.update({f"{chosen[name].module}.{k}": part for k, part in parts.items()})
            else:
                out[name] = tensor
        write_tensors(target / shard.name, out)
        files.update(dict.fromkeys(out, shard.name))
    ignore = _ignored(lazy, chosen, model)
    for item in source.iterdir():
        if item.name.endswith(".index.json"):
            _write_index(item, target / item.name, files, target)
        elif item.name == "config.json":
            _write_config(item, target / item.name, ignore, zeros / max(total, 1))
        elif item.is_dir():
            shutil.copytree(item, target / item.name)
        elif item not in lazy.shards:
            shutil.copy2(item, target / item.name)


def _ignored(
    lazy: LazyTensors, chosen: Mapping[str, MaskedLayer], model: nn.Module | None
) -> list[str]:
    """Return the layers that a reader who expects linear layers compressed has to leave alone."""
    if model is not None:
        linear = [f"{n}.weight" for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    else:
        blank = lazy.blank()
        linear = [n for n, t in blank.items() if t.dim() == 2 and n.endswith(".weight")]
    return sorted(name.removesuffix(".weight") for name in linear if name not in chosen)


def _write_index(source: Path, target: Path, files: Mapping[str, str], folder: Path) -> None:
    content: dict[str, Any] = json.loads(source.read_text("utf-8"))
    content["weight_map"] = dict(sorted(files.items()))
    lazy = [(folder / name).stat().st_size for name in set(files.values())]
    content.setdefault("metadata", {})["total_size"] = sum(lazy)
    target.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _write_config(source: Path, target: Path, ignore: list[str], sparsity: float) -> None:
    content: dict[str, Any] = json.loads(source.read_text("utf-8"))
    content["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "version": "0.14.0",
        "sparsity_config": {
            "format": FORMAT,
            "targets": ["Linear"],
            "ignore": ignore,
            "global_sparsity": sparsity,
            "sparsity_structure": "2:4",
        },
    }
    target.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
