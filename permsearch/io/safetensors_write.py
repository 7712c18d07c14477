"""Writing `.safetensors` files of any size from pieces, without holding them in memory.

The `safetensors` package writes only what is in memory as a whole; merging the parts of a large
bundle needs a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.atomic import written_aside

_CODES = {"uint8": "U8", "int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor to write: its name, number type, shape, and how to get it when its turn comes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    get: Callable[[], NDArray[Any]]

    @classmethod
    def of(cls, name: str, array: NDArray[Any]) -> Piece:
        """Return the piece for an array in memory."""
        return cls(name, array.dtype.name, array.shape, lambda: array)

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


def write_safetensors(
    path: Path, pieces: Sequence[Piece], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a `.safetensors` file whole or not at all.

    Raises
    ------
    FileError
        The file cannot be written; what stood at `path` is untouched.
    """
    with written_aside(path) as file:
        file.write(_header(pieces, metadata))
        for piece in pieces:
            _write_piece(file, piece)


def _header(pieces: Sequence[Piece], metadata: Mapping[str, str] | None) -> bytes:
    content: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for piece in pieces:
        if piece.name == "__metadata__" or piece.name in content:
            raise FileError(f"a tensor cannot be stored as {piece.name!r}; rename it.")
        content[piece.name] = {
            "dtype": _CODES[piece.dtype],
            "shape": list(piece.shape),
            "data_offsets": [position, position + piece.nbytes],
        }
        position += piece.nbytes
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format asks for data on an 8-byte boundary
    return len(text).to_bytes(8, "little") + text


def _write_piece(file: IO[bytes], piece: Piece) -> None:
    array = np.ascontiguousarray(piece.get()).reshape(piece.shape)
    if array.dtype.name != piece.dtype:
        raise TypeError(f"{piece.name}: promised {piece.dtype}, got {array.dtype}.")
    file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
