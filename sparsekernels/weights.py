"""Weights from files, as torch has them: what `permsearch search` reads, `pack` reads too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch

from sparsekernels.errors import PackedFileError

Readers: TypeAlias = dict[str, Callable[[], torch.Tensor]]


def open_weights(path: Path) -> Readers:
    """Return a function that reads it for every tensor of a file or a folder, by name.

    Parameters
    ----------
    path
        A `.safetensors`, `.npy` (one tensor, named after the file) or `.npz` file, or a folder of
        `.safetensors` files.

    Raises
    ------
    PackedFileError
        It cannot be read, holds no weights, or is of another kind.
    """
    if path.suffix in {".npy", ".npz"} and path.is_file():
        readers = _of_numpy(path)
    elif path.suffix == ".safetensors" or path.is_dir():
        files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
        readers = {name: read for file in files for name, read in _of_safetensors(file).items()}
    else:
        raise PackedFileError(
            f"{path} is no file of weights that is read: .safetensors, .npy, .npz, or a folder of "
            ".safetensors files."
        )
    if not readers:
        raise PackedFileError(f"{path} holds no weights.")
    return readers


def _of_safetensors(path: Path) -> Readers:
    from safetensors import SafetensorError, safe_open

    try:
        opened = safe_open(path, "pt")
        names = list(opened.keys())  # type: ignore[no-untyped-call]
    except (SafetensorError, OSError) as error:
        raise PackedFileError(f"{path} cannot be read: {error}.") from error
    return {name: partial(opened.get_tensor, name) for name in names}


def _of_numpy(path: Path) -> Readers:
    import zipfile

    import numpy as np

    try:
        opened: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise PackedFileError(f"{path} cannot be read: {error}.") from error
    if isinstance(opened, np.ndarray):
        return {path.stem: partial(_tensor, {"": opened}, "", path)}
    return {name: partial(_tensor, opened, name, path) for name in opened.files}


def _tensor(arrays: Any, name: str, path: Path) -> torch.Tensor:
    try:
        return torch.tensor(arrays[name])
    except (OSError, ValueError, TypeError) as error:
        raise PackedFileError(f"{path}: {name or path.stem} cannot be read: {error}.") from error
