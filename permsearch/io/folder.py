"""Reading a Hugging Face folder: shards with an index, or plain safetensors files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.regular import check_regular
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.source import TensorInfo, no_tensor

_INDEX = ".safetensors.index.json"


@dataclass(frozen=True, slots=True)
class ShardedFolder:
    """The tensors of a folder of `.safetensors` files; a `TensorSource`."""

    path: Path
    shards: Mapping[str, SafetensorsFile]  # tensor name -> the file it lies in

    @classmethod
    def open(cls, path: Path) -> ShardedFolder:
        """Return the folder at `path`: by its index where it has one, else every file in it."""
        indexes = sorted(path.glob(f"*{_INDEX}"))
        preferred = [index for index in indexes if index.name == f"model{_INDEX}"] or indexes
        if len(preferred) > 1:
            names = ", ".join(index.name for index in preferred)
            raise FileError(f"{path}: several shard indexes ({names}); name one file instead.")
        if preferred:
            return cls(path, _by_index(preferred[0]))
        single = path / "model.safetensors"
        files = [single] if single.is_file() else sorted(path.glob("*.safetensors"))
        if not files:
            raise FileError(f"{path}: {_what_lies_there(path)}")
        return cls(path, _all_of(files))

    @property
    def where(self) -> str:
        """The folder's path."""
        return str(self.path)

    def names(self) -> tuple[str, ...]:
        """Return the names, file after file, in the order of their data."""
        return tuple(self.shards)

    def info(self, name: str) -> TensorInfo:
        """Return shape and number type of a tensor."""
        return self._shard(name).info(name)

    def read(self, name: str) -> NDArray[Any]:
        """Return a tensor; bfloat16 and float8 come as float32, without loss."""
        return self._shard(name).read(name)

    def read_rows(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Return the rows first .. last - 1 of a tensor, as `read` would; only they are read."""
        return self._shard(name).read_rows(name, first, last)

    def _shard(self, name: str) -> SafetensorsFile:
        if name not in self.shards:
            raise no_tensor(name, self)
        return self.shards[name]


def _weight_map(index: Path) -> dict[str, str]:
    check_regular(index)
    try:
        content = json.loads(index.read_text("utf-8"))
        weight_map = content["weight_map"]
    except OSError as error:
        raise FileError(f"{index}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise FileError(f"{index}: not a shard index with a weight_map ({error!r}).") from error
    if not isinstance(weight_map, dict) or not all(isinstance(v, str) for v in weight_map.values()):
        raise FileError(f"{index}: weight_map must map tensor names to file names.")
    return weight_map


def _by_index(index: Path) -> dict[str, SafetensorsFile]:
    weight_map = _weight_map(index)
    shards: dict[str, SafetensorsFile] = {}
    for file_name in sorted(set(weight_map.values())):
        if Path(file_name).name != file_name:
            raise FileError(f"{index}: shard {file_name!r} lies outside the folder.")
        path = index.parent / file_name
        if not path.is_file():
            raise FileError(f"{index}: shard {file_name!r} is missing; download the folder again.")
        shard = SafetensorsFile.open(path)
        named = {name for name, where in weight_map.items() if where == file_name}
        lost = sorted(named - set(shard.entries))
        if lost:
            raise FileError(
                f"{path}: tensor {lost[0]!r} is missing, but {index.name} puts it there."
            )
        shards.update((name, shard) for name in shard.names() if name in named)
    return shards


def _all_of(files: list[Path]) -> dict[str, SafetensorsFile]:
    shards: dict[str, SafetensorsFile] = {}
    for path in files:
        shard = SafetensorsFile.open(path)
        for name in shard.names():
            if name in shards:
                raise FileError(
                    f"{path}: tensor {name!r} is also in {shards[name].path.name}, and no index "
                    "says which one counts; name one file instead of the folder."
                )
            shards[name] = shard
    return shards


def _what_lies_there(path: Path) -> str:
    if any(path.glob("*.bin")) or any(path.glob("*.pt")) or any(path.glob("*.pth")):
        return (
            "holds pickled weights only, which are never loaded; convert them with "
            "safetensors.torch.save_file."
        )
    return "no .safetensors file in this folder."
