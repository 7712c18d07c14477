"""Reading `.safetensors` files tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.header import Entry, read_header
from permsearch.io.source import TensorInfo, no_tensor


@dataclass(frozen=True, slots=True)
class SafetensorsFile:
    """The tensors of one `.safetensors` file; a `TensorSource`.

    Nothing stays open between reads, and a read touches only the tensor's own bytes.
    """

    path: Path
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]

    @classmethod
    def open(cls, path: Path) -> SafetensorsFile:
        """Return the file at `path` after checking its whole header."""
        header = read_header(path)
        return cls(path, header.entries, header.metadata)

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self.path)

    def names(self) -> tuple[str, ...]:
        """Return the names in the order of their data."""
        return tuple(self.entries)

    def info(self, name: str) -> TensorInfo:
        """Return shape and number type of a tensor."""
        entry = self._entry(name)
        return TensorInfo(name, entry.shape, entry.stored.label)

    def read(self, name: str) -> NDArray[Any]:
        """Return a tensor; bfloat16 and float8 come as float32, without loss."""
        entry = self._entry(name)
        return self._numbers(entry, entry.begin, entry.end).reshape(entry.shape)

    def read_rows(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Return the rows first .. last - 1 of a tensor, as `read` would; only they are read."""
        entry = self._entry(name)
        size = (entry.end - entry.begin) // max(1, entry.shape[0])
        begin, end = entry.begin + first * size, entry.begin + last * size
        return self._numbers(entry, begin, end).reshape(last - first, *entry.shape[1:])

    def _numbers(self, entry: Entry, begin: int, end: int) -> NDArray[Any]:
        stored = entry.stored
        if not stored.readable:
            raise FileError(f"{self.path}: tensor {entry.name!r}: {stored.label} cannot be read.")
        numbers = self._bytes(entry, begin, end).view(stored.storage)
        if stored.decode is not None:
            return stored.decode(numbers)
        return numbers.astype(numbers.dtype.newbyteorder("="), copy=False)

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise no_tensor(name, self)
        return self.entries[name]

    def _bytes(self, entry: Entry, begin: int, end: int) -> NDArray[np.uint8]:
        """Return bytes of a tensor; read, since a map of a file that is cut kills the process."""
        data = np.empty(end - begin, np.uint8)
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(begin)
                found = _read_fully(file, data)
        except OSError as error:
            raise FileError(
                f"{self.path}: tensor {entry.name!r} cannot be read ({error.strerror or error})."
            ) from error
        if found != data.size:
            raise FileError(
                f"{self.path}: tensor {entry.name!r}: expected {data.size:,} bytes, found "
                f"{found:,}; the file changed while it was in use."
            )
        return data


def _read_fully(file: Any, data: NDArray[np.uint8]) -> int:
    """Fill `data` from an unbuffered file; return the bytes got, fewer only at the file's end."""
    view, done = data.data, 0
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            break
        done += got
    return done
