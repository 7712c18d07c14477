"""The header of a safetensors file, read and checked before a byte of data is believed."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from permsearch.errors import FileError
from permsearch.io.dtypes import STORED_TYPES, StoredType
from permsearch.io.foreign import foreign_kind
from permsearch.io.regular import check_regular
from permsearch.io.source import can_be_array, shape_text

MAX_HEADER = 100_000_000  # the limit of the reference implementation

_BROKEN = "download or copy it again"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a tensor lies in its file, in bytes from the file's start, and what it is."""

    name: str
    stored: StoredType
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: entries in the order of their data, and the file's own remarks."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]


def read_header(path: Path) -> Header:
    """Return the checked header of a safetensors file.

    Raises
    ------
    FileError
        The file is missing, truncated, foreign, or its header contradicts itself. Names the
        file, the tensor, what was expected and what was found.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = _header_length(path, start, size)
            text = file.read(length)
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if len(text) != length:
        raise FileError(f"{path}: ended inside its header; {_BROKEN}.")
    content = _parse(path, text)
    metadata = _metadata(path, content.pop("__metadata__", {}))
    first = 8 + length
    entries = [_entry(path, name, value, first) for name, value in content.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_layout(path, entries, first, size)
    return Header({entry.name: entry for entry in entries}, metadata)


def _header_length(path: Path, start: bytes, size: int) -> int:
    length = int.from_bytes(start, "little")
    # a length that can be one comes first: 640 starts like a pickle of protocol 2
    fits = len(start) == 8 and length <= min(MAX_HEADER, size - 8)
    kind = None if fits else foreign_kind(path, start)
    if kind:
        raise FileError(f"{path}: not a safetensors file: {kind}.")
    if len(start) < 8:
        raise FileError(
            f"{path}: {size} bytes, too short for a safetensors file, which starts with the 8-byte "
            f"length of its header; {_BROKEN}."
        )
    if length > MAX_HEADER:
        raise FileError(
            f"{path}: not a safetensors file: its first 8 bytes would mean a header of {length:,} "
            f"bytes (at most {MAX_HEADER:,} are allowed)."
        )
    if 8 + length > size:
        raise FileError(
            f"{path}: truncated: the header should take {length:,} bytes and {size - 8:,} are "
            f"there; {_BROKEN}."
        )
    return length


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise FileError(f"{path}: the name {twice!r} stands twice in the header.")
        return content

    try:
        content = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise FileError(
            f"{path}: not a safetensors file, or a damaged one: its header is not JSON ({error})."
        ) from error
    if not isinstance(content, dict):
        raise FileError(f"{path}: the header is {type(content).__name__}, not a table of tensors.")
    return content


def _metadata(path: Path, value: object) -> dict[str, str]:
    if not (isinstance(value, dict) and all(isinstance(v, str) for v in value.values())):
        raise FileError(f"{path}: __metadata__ in the header must map names to texts.")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counts(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(_is_count(item) for item in value):
        return tuple(value)
    return None


def _entry(path: Path, name: str, value: object, first: int) -> Entry:
    place = f"{path}: tensor {name!r}"
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise FileError(f"{place}: its name is not valid Unicode.")
    if not isinstance(value, dict):
        raise FileError(f"{place}: its header entry is not a table.")
    code, shape = value.get("dtype"), _counts(value.get("shape"))
    offsets = _counts(value.get("data_offsets"))
    if not isinstance(code, str) or code not in STORED_TYPES:
        raise FileError(f"{place}: unknown number type {code!r}; known: {', '.join(STORED_TYPES)}.")
    if shape is None:
        raise FileError(f"{place}: shape {value.get('shape')!r} is not a list of counts.")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FileError(f"{place}: data_offsets {value.get('data_offsets')!r} are not a range.")
    stored = STORED_TYPES[code]
    expected, found = -(-math.prod(shape) * stored.bits // 8), offsets[1] - offsets[0]
    if expected != found:
        raise FileError(
            f"{place}: {code} of shape {list(shape)} takes {expected:,} bytes, the header gives it "
            f"{found:,}; the file is damaged or was written wrongly."
        )
    if not can_be_array(shape):
        raise FileError(f"{place}: no array can have the shape {shape_text(shape)}.")
    return Entry(name, stored, shape, first + offsets[0], first + offsets[1])


def _check_layout(path: Path, entries: list[Entry], first: int, size: int) -> None:
    """Refuse overlaps and gaps, as the format demands, and data beyond or short of the file."""
    position = first
    for entry in entries:
        if entry.begin != position:
            what = "overlaps the one before it" if entry.begin < position else "leaves a gap"
            raise FileError(
                f"{path}: tensor {entry.name!r} {what}: its data should start at byte "
                f"{position - first}, found {entry.begin - first}; the file is damaged or was "
                "written wrongly."
            )
        position = entry.end
        if position > size:
            raise FileError(
                f"{path}: truncated: tensor {entry.name!r} needs bytes {entry.begin:,} to "
                f"{entry.end:,}, the file ends at {size:,}; {_BROKEN}."
            )
    if position < size:
        raise FileError(
            f"{path}: {size - position:,} bytes follow the last tensor; expected the file to end "
            f"at {position:,}, found {size:,}. It is damaged or two files were joined."
        )
