"""The finished pieces of a run, each a small file of its own that is whole or not there.

A file for each piece needs no database and no lock between machines: every writer has names of its
own, a rename is atomic on local and on network file systems, and what a kill or a full disk
interrupts is a hidden file that nobody reads.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.atomic import check_writable, written_aside
from permsearch.io.jsontext import plain
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.safetensors_write import Piece, write_safetensors

SUFFIX = ".safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What came of one piece of work.

    Attributes
    ----------
    record
        What JSON can hold: numbers and words.
    arrays
        Named arrays, of the number types that `permsearch.io.safetensors_write` knows.
    """

    record: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class StoredPart:
    """A finished piece on the disk: its record, and the file with its arrays."""

    record: dict[str, Any]
    file: SafetensorsFile

    def load(self) -> Part:
        """Return the piece with its arrays in memory."""
        return Part(self.record, {name: self.file.read(name) for name in self.file.names()})


def write_part(folder: Path, name: str, part: Part) -> None:
    """Store a finished piece; it is on the disk, whole, when this returns.

    Raises
    ------
    FileError
        It cannot be written, naming the reason; nothing of it is left.
    """
    pieces = [Piece.of(key, array) for key, array in part.arrays.items()]
    record = json.dumps(plain(part.record))
    write_safetensors(folder / f"{_file_name(name)}{SUFFIX}", pieces, {"record": record})


def stored_parts(
    folder: Path, damage: Callable[[object], str | None] = lambda record: None
) -> Iterator[StoredPart]:
    """Yield the finished pieces in a folder; those that are damaged count as not finished.

    Parameters
    ----------
    folder
        Where they lie; it need not exist.
    damage
        Says what is wrong with a record, or None.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            file = SafetensorsFile.open(path)
            record = json.loads(file.metadata["record"])
        except (FileError, ValueError, KeyError):
            continue
        if isinstance(record, dict) and damage(record) is None:
            yield StoredPart(record, file)


def copy_parts(source: Path, target: Path) -> None:
    """Take over the pieces of another folder, each whole or not at all; those here stay.

    Raises
    ------
    FileError
        They cannot be read, or not be written here.
    """
    check_writable(target)
    for path in sorted(source.glob("*")):
        if path.name.startswith(".") or (target / path.name).exists():
            continue
        try:
            with path.open("rb") as file, written_aside(target / path.name) as copy:
                shutil.copyfileobj(file, copy)
        except FileError:
            raise
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _file_name(name: str) -> str:
    """Return a file name for a piece: names may hold slashes or be longer than a file's may."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
