"""Paths that are no regular files: opening a pipe would wait for ever, and a device is no place."""

from __future__ import annotations

import stat
from pathlib import Path

from permsearch.errors import FileError


def check_regular(path: Path) -> None:
    """Raise FileError where something other than a regular file or a link to one is at a path.

    That nothing is there, or that nothing can be, is left to whoever opens it.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise FileError(f"{path}: {kind}, not a file; give a regular file.")
