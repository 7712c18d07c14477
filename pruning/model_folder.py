"""A Hugging Face folder: its tensors in, the same folder with reordered tensors out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from permsearch.errors import FileError

if TYPE_CHECKING:
    import torch

    from pruning.reorder import Move


def shards_of(folder: Path) -> list[Path]:
    """Return the weight files of a folder."""
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise FileError(f"{folder} holds no .safetensors file.")
    return found


def read_folder(folder: Path) -> dict[str, torch.Tensor]:
    """Return every tensor of a folder, by name."""
    from safetensors.torch import load_file

    return {
        name: tensor for shard in shards_of(folder) for name, tensor in load_file(shard).items()
    }


def check_target(source: Path, target: Path) -> None:
    """Refuse a target that is the source or is not empty."""
    if target.resolve() == source.resolve():
        raise FileError(f"{target} is the model itself; name another folder for --out.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileError(f"{target} exists and is not an empty folder.")


def write_folder(source: Path, target: Path, moves: Mapping[str, Sequence[Move]]) -> None:
    """Write a copy of a folder with reordered tensors: shards, names, types and config kept."""
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    target.mkdir(parents=True, exist_ok=True)
    shards = shards_of(source)
    for file in source.iterdir():
        if file.is_file() and file not in shards:
            shutil.copy2(file, target / file.name)
    for shard in shards:
        with safe_open(shard, framework="pt") as opened:
            about = opened.metadata()
        tensors = load_file(shard)
        for name, tensor in tensors.items():
            for move in moves.get(name, ()):
                move.apply_(tensor)
        save_file(tensors, target / shard.name, metadata=about)
