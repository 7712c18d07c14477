"""Files that are either whole or not there: written aside, flushed to disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from permsearch.errors import FileError


def replaceable(path: Path) -> Path:
    """Return the regular file to write where `path` is asked for: what a link points to.

    Raises
    ------
    FileError
        A folder, a pipe or a device is there, which a file must not take the place of.
    """
    try:
        target = path.resolve() if path.is_symlink() else path
        # /dev/stdout and the like are links to whatever is open just now
        taken = target.exists() and not target.is_file()
        if taken or (target != path and path.absolute().parts[1] in {"dev", "proc"}):
            raise FileError(
                f"{path}: not a regular file, so it is not replaced; choose another file, or - for "
                "the standard output."
            )
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: cannot be written ({error}).") from error
    return target


@contextmanager
def written_aside(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `path` once the block ends without an error.

    A link stays, and what it points to is replaced; a file that is replaced hands on its mode.

    Raises
    ------
    FileError
        The file cannot be written or is no regular one; what stood at `path` is untouched.
    """
    path = replaceable(path)
    # A machine's number of this process may be another machine's too, in a folder both write to.
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():  # who may read it is not ours to change
            aside.chmod(stat.S_IMODE(path.stat().st_mode))
        aside.replace(path)
        _sync_folder(path.parent)
    except FileError:
        _remove(aside)
        raise
    except OSError as error:
        _remove(aside)
        raise FileError(f"{path}: cannot be written ({error.strerror or error}).") from error
    except BaseException:
        _remove(aside)
        raise


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left aside in a folder; nobody may be writing there."""
    for path in folder.glob(".*.tmp"):
        _remove(path)


def check_writable(folder: Path) -> None:
    """Create a folder and prove that files can be written in it.

    Raises
    ------
    FileError
        Naming the folder and the reason.
    """
    probe = folder / f".probe.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(
            f"{folder}: cannot be written to ({reason}); choose another folder."
        ) from error


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system lets folders be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
