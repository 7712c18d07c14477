"""Dense weights with zeros: what every consumer reads, whether it makes use of zeros or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruning.errors import ExportError
from pruning.exports.files import folder_aside, write_tensors
from pruning.exports.folder import export_folder
from pruning.exports.job import Exported, Job

if TYPE_CHECKING:
    from torch import nn

    from pruning.exports.layers import MaskedLayer


def write(job: Job) -> Exported:
    """Write one file if the path ends in .safetensors, else a Hugging Face folder."""
    if job.output.suffix != ".safetensors":
        return write_folder_of(job)
    if job.model is None:
        raise ExportError(f"{job.output}: of a folder, a folder is made; give one for the path.")
    tensors, metadata = distinct(job.model)
    write_tensors(job.output, tensors, metadata)
    return job.done()


class _Masks(Mapping[str, Any]):
    """The masks of layers, each made when it is asked for."""

    def __init__(self, layers: Mapping[str, MaskedLayer]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Any:
        return self._layers[name].mask.numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def write_folder_of(job: Job) -> Exported:
    """Write a Hugging Face folder, from one or from a model of transformers."""
    if job.folder is not None:
        export_folder(job.folder, job.output, _Masks({layer.name: layer for layer in job.layers}))
        return job.done()
    job.refuse_gathers()
    with folder_aside(job.output) as aside:
        save_pretrained(job.module, aside)
    return job.done()


def save_pretrained(model: nn.Module, folder: Path) -> None:
    """Have transformers save a model."""
    save: Any = getattr(model, "save_pretrained", None)
    if save is None:
        raise ExportError(
            f"a {type(model).__name__} is no model of transformers, which make folders; give a "
            "path that ends in .safetensors."
        )
    save(folder)


def distinct(model: nn.Module) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a model's tensors, each once, and the names of the others for the file's remarks.

    As `safetensors.torch.save_model` has it, so that its `load_model` ties them again.
    """
    kept: dict[tuple[int, ...], str] = {}
    tensors, metadata = {}, {"format": "pt"}
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tensor.storage_offset(), *tensor.shape, *tensor.stride())
        if tensor.numel() and key in kept:
            metadata[name] = kept[key]
        else:
            kept[key] = name
            tensors[name] = tensor
    return tensors, metadata
