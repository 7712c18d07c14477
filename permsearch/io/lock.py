"""A lock on a folder, so that two runs never write one result at the same time."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import IO

from permsearch.errors import FileError

_BUSY = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}


class FolderLock:
    """Holds a folder for one process; the system lets go of it when the process dies.

    Parameters
    ----------
    folder
        The folder.
    share
        The name of a share of the work, such as "3-of-16": shares of other names may be held by
        other processes at the same time, the folder as a whole may not.

    Raises
    ------
    FileError
        Another process holds the folder or the share, or something else is where the lock belongs.
    """

    def __init__(self, folder: Path, share: str | None = None) -> None:
        self._files: list[IO[bytes]] = []
        try:
            self._hold(folder, folder / ".lock", shared=share is not None)
            if share is not None:
                self._hold(folder, folder / f".lock-{share}", shared=False)
        except BaseException:
            self.release()
            raise

    def _hold(self, folder: Path, path: Path, *, shared: bool) -> None:
        file = _opened(path)
        self._files.append(file)
        try:
            _acquire(file, shared=shared)
        except OSError as error:
            if error.errno not in _BUSY:  # a file system without locks: left to the user's care
                return
            raise FileError(
                f"{folder}: another run is writing here; wait for it or choose another --out."
            ) from error

    def release(self) -> None:
        """Let go of the folder."""
        while self._files:
            self._files.pop().close()


def _opened(path: Path) -> IO[bytes]:
    try:
        if not path.exists() or path.is_file():  # opening a pipe would wait
            return path.open("ab+")  # network file systems want both to share and to hold
        reason = "not a regular file"
    except OSError as error:
        reason = error.strerror or str(error)
    raise FileError(f"{path}: cannot be opened ({reason}); remove it or choose another --out.")


def _acquire(file: IO[bytes], *, shared: bool) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two runs at once stay the user's care
        return
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
