"""A fingerprint from samples of a tensor's bytes: cheap enough to plan a job of any size by."""

from __future__ import annotations

import hashlib
from pathlib import Path

from permsearch.errors import FileError
from permsearch.io.safetensors_file import SafetensorsFile

_PLACES = 16
_BYTES = 4096


def sampled_fingerprint(file: SafetensorsFile, name: str) -> str:
    """Return the SHA-256, in hex, of a tensor's type, shape and sixteen runs of its bytes.

    It tells checkpoints apart that were trained apart, and does not change when a file is copied.
    It does not notice a change of a few entries.

    Raises
    ------
    FileError
        The file cannot be read, or ends early.
    """
    entry = file.entries[name]
    head = f"{entry.stored.label}{list(entry.shape)}"
    return _sampled(file.path, head, entry.begin, entry.end - entry.begin)


def sampled_file(path: Path) -> str:
    """Return the SHA-256, in hex, of a file's size and sixteen runs of its bytes.

    Raises
    ------
    FileError
        The file cannot be read.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    return _sampled(path, str(size), 0, size)


def _sampled(path: Path, head: str, begin: int, size: int) -> str:
    digest = hashlib.sha256(head.encode())
    try:
        with path.open("rb", buffering=0) as opened:
            for place in range(_PLACES):
                at = max(0, size - _BYTES) * place // (_PLACES - 1)
                opened.seek(begin + at)
                digest.update(opened.read(min(_BYTES, size)))
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    return digest.hexdigest()
