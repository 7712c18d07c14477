"""Masks and orders from a bundle folder, read with the format's own description alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsekernels.errors import PackedFileError

FORMAT = "permsearch.bundle"


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """A mask with the orders under which it is of its pattern; what `pack` and swaps take."""

    mask: Tensor
    pattern: str
    rows: Tensor | None = None
    cols: Tensor | None = None
    tiles: Tensor | None = None


def read_bundle(folder: Path) -> Iterator[tuple[str, BundleEntry]]:
    """Yield names and entries of a folder that `permsearch search --out` wrote.

    Raises
    ------
    PackedFileError
        When it is no complete bundle, naming the file at fault.
    """
    from safetensors import SafetensorError, safe_open

    manifest = _manifest(folder)
    orders: dict[str, Tensor] = {}
    try:
        path = folder / "permutations.safetensors"
        if path.is_file():
            with safe_open(path, "pt") as file:
                orders = {key: file.get_tensor(key).long() for key in file.keys()}  # noqa: SIM118
        with safe_open(folder / "masks.safetensors", "pt") as file:
            for name, record in manifest["tensors"].items():
                yield name, _entry(file.get_tensor(name), record, orders)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise PackedFileError(f"{folder} is no readable bundle of masks: {error}.") from error


def _manifest(folder: Path) -> Any:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        complete = manifest["complete"]
        manifest["tensors"].items()
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise PackedFileError(f"{folder} is no bundle of masks: {error}.") from error
    if not complete:
        raise PackedFileError(f"{folder} holds a run that did not end; repeat the search command.")
    return manifest


def _entry(bits: Tensor, record: Any, orders: dict[str, Tensor]) -> BundleEntry:
    shape = record["shape"]
    size = int(torch.Size(shape).numel())
    mask = (bits[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).reshape(-1)[:size].bool()
    named = {axis: orders[key] for axis, key in record.get("orders", {}).items()}
    return BundleEntry(mask.reshape(shape), record["pattern"], **named)
