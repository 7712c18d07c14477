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
        Another process holds the folder, or something else is where the lock belongs.
    """

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] | None = _opened(folder / ".lock")
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


def _opened(path: Path) -> IO[bytes]:
    try:
        if not path.exists() or path.is_file():  # opening a pipe would wait
            return path.open("wb")
        reason = "not a regular file"
    except OSError as error:
        reason = error.strerror or str(error)
    raise FileError(f"{path}: cannot be opened ({reason}); remove it or choose another --out.")


def _acquire(file: IO[bytes]) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two runs at once stay the user's care
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
