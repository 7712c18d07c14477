"""Reading `.npy` and `.npz` files; what they hold is never unpickled."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.foreign import foreign_kind
from permsearch.io.regular import check_regular
from permsearch.io.source import TensorInfo, can_be_array, no_tensor, shape_text

_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_SHOWN = 160  # characters of an error of numpy's


@dataclass(frozen=True, slots=True)
class NumpyFile:
    """The arrays of a `.npy` (one, named after the file) or `.npz` file; a `TensorSource`."""

    path: Path
    infos: Mapping[str, TensorInfo]

    @classmethod
    def open(cls, path: Path) -> NumpyFile:
        """Return the file at `path` after reading the header of every array in it."""
        check_regular(path)
        with _told(path):
            if path.suffix == ".npz":
                return cls(path, _npz_infos(path))
            with path.open("rb") as file:
                info = _info(path, path.stem, file, path.stat().st_size)
            return cls(path, {info.name: info})

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self.path)

    def names(self) -> tuple[str, ...]:
        """Return the names in the file's order."""
        return tuple(self.infos)

    def info(self, name: str) -> TensorInfo:
        """Return shape and number type of an array."""
        if name not in self.infos:
            raise no_tensor(name, self)
        return self.infos[name]

    def read(self, name: str) -> NDArray[Any]:
        """Return an array."""
        if self.info(name).dtype == "object":
            raise FileError(
                f"{self.path}: array {name!r} holds pickled Python objects, which are never loaded."
            )
        with _told(self.path, name):
            if self.path.suffix != ".npz":
                with self.path.open("rb") as file:
                    return np.lib.format.read_array(file, allow_pickle=False)
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as member:
                return np.lib.format.read_array(member, allow_pickle=False)


def _npz_infos(path: Path) -> dict[str, TensorInfo]:
    infos: dict[str, TensorInfo] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                continue
            if name in infos:
                raise FileError(f"{path}: the name {name!r} stands twice in the archive.")
            with archive.open(member) as file:
                infos[name] = _info(path, name, file, member.file_size)
    return infos


def _info(path: Path, name: str, file: IO[bytes], size: int) -> TensorInfo:
    """Read an array's header; refuse one whose promise the `size` bytes of the file cannot keep."""
    version = np.lib.format.read_magic(file)
    if version not in _READERS:
        raise FileError(f"{path}: array {name!r} has numpy format {version}; 1.0 or 2.0 is known.")
    try:
        shape, _, dtype = _READERS[version](file)
    except Exception as error:  # numpy runs Python's own parser, which raises all sorts of errors
        reason = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
        raise FileError(
            f"{path}: array {name!r}: its header cannot be read ({reason}); copy the file again."
        ) from error
    if not (all(type(n) is int and n >= 0 for n in shape) and can_be_array(shape)):
        raise FileError(
            f"{path}: array {name!r}: no array can have the shape {shape_text(shape)}; copy the "
            "file again."
        )
    if dtype.hasobject:
        return TensorInfo(name, tuple(shape), "object")
    expected, found = math.prod(shape) * dtype.itemsize, size - file.tell()
    if expected != found:
        state = "truncated" if found < expected else "damaged"
        raise FileError(
            f"{path}: {state}: array {name!r} of shape {list(shape)} and type {dtype} takes "
            f"{expected:,} bytes, {found:,} are there; copy the file again."
        )
    return TensorInfo(name, tuple(shape), dtype.name)


@contextmanager
def _told(path: Path, name: str | None = None) -> Iterator[None]:
    """Turn whatever a damaged file raises into an error that names it."""
    place = f"{path}" if name is None else f"{path}: array {name!r}"
    try:
        yield
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{place}: no such file.") from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, OSError, SyntaxError) as error:
        raise FileError(
            f"{place}: not a {path.suffix} file, or a damaged one ({_why(path, error)})."
        ) from error
    except (NotImplementedError, RuntimeError, KeyError) as error:  # odd or encrypted archives
        raise FileError(f"{place}: cannot be unpacked ({error}).") from error


def _why(path: Path, error: BaseException) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError:
        return str(error)
    kind = None if start[:2] == b"PK" else foreign_kind(path, start)
    return kind or str(error) or type(error).__name__
