"""Packed weights as safetensors files, with sums that tell an altered one."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsekernels.errors import PackedFileError, PackError
from sparsekernels.formats.base import PackedWeight
from sparsekernels.formats.choose import FORMATS

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "sparsekernels.packed/1"


def save_packed(weights: Mapping[str, PackedWeight], path: str | os.PathLike[str]) -> None:
    """Write packed weights to a file, whole or not at all.

    Each tensor is stored as ``NAME/PART``; what the parts mean stands in the file's metadata.

    Parameters
    ----------
    weights
        By name; the name `unpack_packed` will give back.
    path
        Usually ends in ``.safetensors``.

    Examples
    --------
    >>> import tempfile, torch, sparsekernels as sk
    >>> packed = sk.pack(torch.tensor([[5.0, 0.0, 2.0, 0.0]]), None, "2:4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_packed({"layer": packed}, f"{folder}/packed.safetensors")
    ...     load_packed(f"{folder}/packed.safetensors")["layer"].unpack()
    tensor([[5., 0., 2., 0.]])
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    told: dict[str, Any] = {}
    for name, weight in weights.items():
        parts = {
            part: tensor.detach().cpu().contiguous() for part, tensor in weight.tensors().items()
        }
        # one storage may back several parts, which the format does not allow
        tensors |= {f"{name}/{part}": tensor.clone() for part, tensor in parts.items()}
        told[name] = {
            "kind": weight.kind,
            "pattern": weight.pattern,
            "shape": list(weight.shape),
            "numbers": weight.numbers(),
            "sum": _sum(parts),
        }
    content = save(tensors, {"format": FORMAT, "weights": json.dumps(told)})
    target = Path(path)
    handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).chmod(0o644)
        Path(aside).replace(target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def load_packed(path: str | os.PathLike[str], device: str = "cpu") -> dict[str, PackedWeight]:
    """Return the packed weights of a file, checked: every byte, and every index.

    Raises
    ------
    PackedFileError
        When the file is missing, cut off, altered, or holds something else; the message names
        the file and the weight.

    Examples
    --------
    >>> import tempfile, torch, sparsekernels as sk
    >>> packed = sk.pack(torch.tensor([[5.0, 0.0, 2.0, 0.0]]), None, "2:4")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_packed({"layer": packed}, f"{folder}/packed.safetensors")
    ...     list(load_packed(f"{folder}/packed.safetensors"))
    ['layer']
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise PackedFileError(
                    f"{path} holds no packed weights ({FORMAT}); `pack` makes them."
                )
            told = json.loads(about["weights"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise PackedFileError(f"{path} does not exist.") from error
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        if isinstance(error, PackedFileError):
            raise
        raise PackedFileError(f"{path} is damaged: {error}.") from error
    return {name: _weight(path, name, entry, tensors).to(device) for name, entry in told.items()}


def _weight(path: Any, name: str, entry: Any, tensors: Mapping[str, Tensor]) -> PackedWeight:
    parts = {
        key.removeprefix(f"{name}/"): tensor
        for key, tensor in tensors.items()
        if key.rpartition("/")[0] == name
    }
    try:
        if _sum(parts) != entry["sum"]:
            raise PackedFileError(
                f"{path}: the tensors of {name} were altered since they were packed."
            )
        kind, shape = FORMATS[entry["kind"]], tuple(entry["shape"])
        return kind.from_parts(entry["pattern"], shape, parts, entry["numbers"])
    except (PackError, KeyError, TypeError, ValueError) as error:
        raise PackedFileError(f"{path}: {name} cannot be read: {error}") from error


def _sum(parts: Mapping[str, Tensor]) -> str:
    """Return a digest of names, types, shapes and bytes."""
    import torch

    found = hashlib.sha256()
    for part, tensor in sorted(parts.items()):
        found.update(f"{part} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
