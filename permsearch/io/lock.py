"""A lock on a folder, so that two runs never write one bundle at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from permsearch.errors import FileError


class FolderLock:
    """Holds a folder for one process; the system lets go of it when the process dies.

    Raises
    ------
    FileError
        Another process holds the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] | None = (folder / ".lock").open("wb")
        try:
            _acquire(self._file)
        except OSError as error:
            self._file.close()
            raise FileError(
                f"{folder}: another run is writing here; wait for it or choose another --out."
            ) from error

    def release(self) -> None:
        """Let go of the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _acquire(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two runs at once stay the user's care
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
