"""One door to every place that holds tensors."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from permsearch.errors import FileError
from permsearch.io.folder import ShardedFolder
from permsearch.io.mapping import MappingSource
from permsearch.io.numpy_file import NumpyFile
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.source import TensorSource

Tensors: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | TensorSource"
"""What functions that go over many tensors accept."""

_KINDS = "a path, a mapping of names to arrays, or a TensorSource."
_SHOWN = 80  # characters of a path too long to exist
_PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl"}


def open_tensors(source: Tensors) -> TensorSource:
    """Return a source of named tensors that reads them one by one.

    Parameters
    ----------
    source
        A `.safetensors`, `.npy` or `.npz` file, a Hugging Face folder (with or without a shard
        index), a mapping of numpy arrays or torch tensors, or a source, which is returned as it is.

    Raises
    ------
    FileError
        The path is missing, foreign, damaged or of a kind that is not read.

    Examples
    --------
    >>> import numpy as np
    >>> from permsearch.io import open_tensors
    >>> source = open_tensors({"w": np.ones((8, 8), np.float32)})
    >>> source.names(), source.info("w").shape
    (('w',), (8, 8))
    """
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source))
    if isinstance(source, Mapping):
        return MappingSource(source)
    if isinstance(source, TensorSource):
        return source
    raise FileError(
        f"cannot read tensors from a {type(source).__name__}; give "
        + ("its weights, as module.state_dict()." if hasattr(source, "state_dict") else _KINDS)
    )


def _open_path(path: Path) -> TensorSource:
    _check_there(path)
    if path.is_dir():
        if (path / "manifest.json").is_file() and (path / "masks.safetensors").is_file():
            raise FileError(
                f"{path}: a mask bundle, not weights; give the weights' file or folder."
            )
        return ShardedFolder.open(path)
    if path.suffix == ".safetensors":
        return SafetensorsFile.open(path)
    if path.suffix in {".npy", ".npz"}:
        return NumpyFile.open(path)
    if path.suffix in _PICKLES:
        raise FileError(
            f"{path}: {path.suffix} files are pickles, which are never loaded; convert the weights "
            "with safetensors.torch.save_file."
        )
    raise FileError(
        f"{path}: unknown kind of file {path.suffix!r}; known are .safetensors, .npy, .npz and "
        "folders with .safetensors files."
    )


def _check_there(path: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError as error:
        if path.is_symlink():
            raise FileError(
                f"{path}: a link to {os.readlink(path)}, which does not exist; give the file's own "
                "path."
            ) from error
        raise FileError(f"{path}: no such file or folder.{_near_path(path)}") from error
    except (OSError, ValueError) as error:
        text = str(path)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        reason = error.strerror if isinstance(error, OSError) else error
        raise FileError(f"{shown}: cannot be read ({reason}).") from error


def _near_path(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {path.parent / near[0]}?" if near else ""
