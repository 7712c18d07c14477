"""Paths that are no regular files: opening a pipe would wait for ever, and a device is no place."""

from __future__ import annotations

from pathlib import Path

from permsearch.errors import FileError


def check_regular(path: Path) -> None:
    """Raise FileError where something other than a regular file or a link to one is at a path.

    That nothing is there is left to whoever opens it.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise FileError(f"{path}: {kind}, not a file; give a regular file.")
