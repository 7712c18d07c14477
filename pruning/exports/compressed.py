"""What llm-compressor writes: folders with dense zeros, or stored as `sparse-24-bitmask`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from permsearch.errors import FileError
from pruning.errors import ExportError
from pruning.exports.bitmask import FORMAT, parts_of
from pruning.model_folder import LazyTensors

if TYPE_CHECKING:
    import torch

#: Name, weight and mask.
Found: TypeAlias = "tuple[str, torch.Tensor, torch.Tensor]"


def opened(model: Any) -> Mapping[str, torch.Tensor]:
    """Return a model's tensors by name, those of a folder one at a time."""
    if hasattr(model, "state_dict"):
        found: Mapping[str, torch.Tensor] = model.state_dict()
        return found
    if isinstance(model, Mapping):
        return model
    path = Path(model)
    if path.is_dir():
        return LazyTensors(path)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise FileError(f"{path}: cannot be read as safetensors ({error}).") from error


def zeros(state: Mapping[str, torch.Tensor], least: float) -> Iterator[Found]:
    """Yield name, weight and mask of the weights that hold at least a share of zeros."""
    for name, tensor in state.items():
        if tensor.dim() > 1 and tensor.is_floating_point():
            mask = tensor != 0
            if float((~mask).float().mean()) >= least:
                yield name, tensor, mask


def compressed_tensors(model: Any, least: float) -> Iterator[Found]:
    """Yield name, weight and mask of what a folder of llm-compressor has pruned.

    Raises
    ------
    ExportError
        It is stored in another format than these two.
    """
    if not isinstance(model, str | Path):
        raise ExportError("llm-compressor's masks are read from its folder; give the path.")
    config = _config(Path(model))
    kind = (config.get("sparsity_config") or {}).get("format", "dense")
    if kind not in ("dense", FORMAT) or config.get("config_groups"):
        raise ExportError(
            f"{model}: weights are quantized or stored as {kind!r}; dense ones with zeros and "
            f"{FORMAT!r} can be read."
        )
    tensors = opened(model)
    if kind == FORMAT:
        for name, parts in parts_of(tensors).items():
            yield name, *parts.unpack()
        return
    ignored = [str(name) for name in (config.get("sparsity_config") or {}).get("ignore") or ()]
    for name, weight, mask in zeros(tensors, least):
        if not any(_matches(name.removesuffix(".weight"), glob) for glob in ignored):
            yield name, weight, mask


def _config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{folder}: no readable config.json ({error}).") from error
    found = content.get("quantization_config") or content.get("compression_config") or {}
    return dict(found)


def _matches(layer: str, pattern: str) -> bool:
    """Decide as compressed-tensors does: a name, or an expression after ``re:``."""
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), layer) is not None
    return layer == pattern
