"""A Hugging Face folder: its tensors one by one, and the same folder with reordered tensors.

Nothing is held beyond one tensor: shards are copied with their headers as they are, tensor by
tensor, into a folder beside the target that takes the target's name once it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from permsearch.errors import FileError
from permsearch.io.folder import ShardedFolder
from permsearch.io.header import Entry, read_header

if TYPE_CHECKING:
    import torch

    from permsearch.orders import Order
    from permsearch.patterns import Mask
    from pruning.reorder import Move

_INDEX = ".safetensors.index.json"


class LazyTensors(Mapping[str, "torch.Tensor"]):
    """The tensors of a folder, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: file.path for name, file in ShardedFolder.open(folder).shards.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor in its own type."""
        from safetensors import safe_open

        with safe_open(self.files[name], framework="pt") as opened:
            found: torch.Tensor = opened.get_tensor(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @property
    def shards(self) -> list[Path]:
        """The files that hold tensors."""
        return sorted(set(self.files.values()))

    def blank(self) -> dict[str, torch.Tensor]:
        """Return tensors of the same names, shapes and types that hold no data."""
        import torch
        from safetensors import safe_open

        found = {}
        for shard in self.shards:
            with safe_open(shard, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 -- a file, not a mapping
                    if name in self.files:
                        piece = opened.get_slice(name)
                        kind = _torch_type(piece.get_dtype())
                        found[name] = torch.empty(piece.get_shape(), dtype=kind, device="meta")
        return {name: found[name] for name in self.files}

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.numel() * t.element_size() for t in self.blank().values())


def _torch_type(code: str) -> Any:
    """Return torch's type for a safetensors code; unreadable ones count as bytes."""
    import torch

    names = {
        "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
        "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64",
        "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "BOOL": "bool",
        "U64": "uint64", "U32": "uint32", "U16": "uint16",
    }  # fmt: skip
    return getattr(torch, names.get(code, "uint8"))


def read_folder(folder: Path) -> dict[str, torch.Tensor]:
    """Return every tensor of a folder, by name."""
    lazy = LazyTensors(folder)
    return {name: lazy[name] for name in lazy}


def check_target(source: Path, target: Path) -> None:
    """Refuse a target that is the source, lies in it, or is not empty."""
    inside = target.resolve()
    if source.resolve() in (inside, *inside.parents):
        raise FileError(f"{target} is the model itself, or lies in it; name another for --out.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileError(f"{target} exists and is not an empty folder.")


def write_folder(
    source: Path,
    target: Path,
    moves: Mapping[str, Sequence[Move]],
    gathered: Mapping[str, Order] | None = None,
    *,
    masks: Mapping[str, Mask] | None = None,
    before: Callable[[Path], None] | None = None,
) -> None:
    """Write a copy of a folder with reordered tensors, whole or not at all.

    Shards, names, types, remarks and all other files are kept. A layer behind a gather has its
    weight under ``LAYER.layer.weight`` and its order under ``LAYER.order``, as the state dict of
    `pruning.Gathered` has them, so that nobody loads it for an ordinary layer.

    Parameters
    ----------
    moves
        What happens to each tensor, by name; gathers included.
    gathered
        The order of the inputs of each gathered layer.
    masks
        What is kept of tensors after they were moved; zero bits (+0.0) take the place of the rest.
    before
        Called with the whole folder where it was written aside, before it takes its name.
    """
    check_target(source, target)
    aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        aside.mkdir(parents=True)
        shards = LazyTensors(source).shards
        for item in sorted(source.iterdir()):
            if item.is_dir():
                shutil.copytree(item, aside / item.name)
            elif item in shards:
                _write_shard(item, aside / item.name, moves, gathered or {}, masks or {})
            elif item.name.endswith(_INDEX) and gathered:
                _write_index(item, aside / item.name, gathered)
            else:
                shutil.copy2(item, aside / item.name)
        if before is not None:
            before(aside)
        aside.replace(target)
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_shard(
    source: Path,
    target: Path,
    moves: Mapping[str, Sequence[Move]],
    gathered: Mapping[str, Order],
    masks: Mapping[str, Mask],
) -> None:
    entries = read_header(source).entries
    extra = {layer: o for layer, o in gathered.items() if f"{layer}.weight" in entries}
    touched = {layer for layer in gathered if {f"{layer}.weight", f"{layer}.bias"} & set(entries)}
    with source.open("rb") as old, target.open("wb") as new:
        length = int.from_bytes(old.read(8), "little")
        text = old.read(length)
        text = _renamed_header(text, touched, extra) if touched else text
        new.write(len(text).to_bytes(8, "little") + text)
        for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
            old.seek(entry.begin)
            _write_tensor(old, new, entry, moves.get(entry.name, ()), masks.get(entry.name))
        for order in extra.values():
            new.write(order.astype("<i8").tobytes())
        new.flush()
        os.fsync(new.fileno())


def _write_tensor(
    old: IO[bytes], new: IO[bytes], entry: Entry, some: Sequence[Move], mask: Mask | None
) -> None:
    import torch

    data = bytearray(old.read(entry.end - entry.begin))
    words = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
    if (some or mask is not None) and data:
        if entry.stored.bits not in words:
            raise FileError(
                f"{entry.name}: {entry.stored.label} numbers cannot be moved one by one."
            )
        tensor = torch.frombuffer(data, dtype=words[entry.stored.bits]).reshape(entry.shape)
        for move in some:
            move.apply_(tensor)
        if mask is not None:
            tensor.masked_fill_(~torch.from_numpy(np.asarray(mask)), 0)
    new.write(data)


def _renamed_header(text: bytes, layers: Collection[str], orders: Mapping[str, Order]) -> bytes:
    """Return a shard's header with the names that gathered layers have, and their orders."""
    content: dict[str, Any] = json.loads(text)
    end = max(at["data_offsets"][1] for name, at in content.items() if name != "__metadata__")
    for name in [f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")]:
        if name in content:
            content[_inner(name)] = content.pop(name)
    for layer, order in orders.items():
        offsets = [end, end + 8 * order.size]
        end = offsets[1]
        told = {"dtype": "I64", "shape": [order.size], "data_offsets": offsets}
        content[f"{layer}.order"] = told
    found = json.dumps(content, separators=(",", ":")).encode()
    return found + b" " * (-len(found) % 8)


def _inner(name: str) -> str:
    """Return the name of a tensor of a layer that now stands inside a gather."""
    layer, _, kind = name.rpartition(".")
    return f"{layer}.layer.{kind}"


def _write_index(source: Path, target: Path, gathered: Mapping[str, Order]) -> None:
    content: dict[str, Any] = json.loads(source.read_text("utf-8"))
    files: dict[str, str] = content["weight_map"]
    for layer in gathered:
        files[f"{layer}.order"] = files[f"{layer}.weight"]
        for name in (f"{layer}.weight", f"{layer}.bias"):
            if name in files:
                files[_inner(name)] = files.pop(name)
    size = content.get("metadata", {}).get("total_size")
    if isinstance(size, int):
        content["metadata"]["total_size"] = size + 8 * sum(o.size for o in gathered.values())
    target.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
