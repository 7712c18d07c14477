"""Files and folders of tensors that are either whole or not there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from permsearch.errors import FileError
from permsearch.io.atomic import replaceable, written_aside

if TYPE_CHECKING:
    import torch


def write_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a `.safetensors` file, whole or not at all."""
    from safetensors.torch import save

    content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()},
                   dict(metadata or {"format": "pt"}))  # fmt: skip
    with written_aside(path) as file:
        file.write(content)


@contextmanager
def folder_aside(target: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the target's name once the block ends without an error.

    Raises
    ------
    FileError
        The target is there already and not empty, or cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileError(f"{target} exists and is not an empty folder; choose another.")
    aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        aside.mkdir(parents=True)
        yield aside
        _flush(aside)
        aside.replace(target)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def folder_moved(target: Path) -> Iterator[Path]:
    """Yield an empty folder whose files are moved beside the target at the end, it itself last.

    Raises
    ------
    FileError
        They cannot be written; what stood there is untouched.
    """
    replaceable(target)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as aside:
            yield Path(aside)
            _flush(Path(aside))
            for path in sorted(Path(aside).iterdir(), key=lambda path: path.name == target.name):
                path.replace(target.with_name(path.name))
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
