"""A Hugging Face folder with zeros where masks drop weights, shard by shard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from permsearch.errors import unknown
from pruning.errors import ExportError
from pruning.model_folder import LazyTensors, write_folder


def export_folder(source: str | Path, target: str | Path, masks: Mapping[str, Any]) -> None:
    """Write a copy of a folder whose dropped weights are zero (+0.0), whole or not at all.

    Names, types, shards, their remarks and all other files are kept, and what is kept of the
    weights is kept to the bit. Only one tensor is in memory at a time.

    Parameters
    ----------
    masks
        Boolean, true = kept, by the tensors' names.

    Raises
    ------
    ExportError
        A mask of another shape or type; nothing was written.
    UnknownName
        The folder has no such tensor.
    FileError
        The target is there already, or cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> import tempfile, torch
    >>> from safetensors.torch import load_file, save_file
    >>> with tempfile.TemporaryDirectory() as place:
    ...     source, target = Path(place) / "dense", Path(place) / "sparse"
    ...     source.mkdir()
    ...     save_file({"w": torch.ones(1, 4)}, source / "model.safetensors")
    ...     export_folder(source, target, {"w": np.array([[True, False, True, False]])})
    ...     load_file(target / "model.safetensors")["w"]
    tensor([[1., 0., 1., 0.]])
    """
    source, target = Path(source), Path(target)
    blank = LazyTensors(source).blank()
    for name, given in masks.items():
        if name not in blank:
            raise unknown("tensor", name, blank)
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.shape != tuple(blank[name].shape):
            raise ExportError(
                f"{name}: a mask of {mask.dtype} and shape {mask.shape} does not fit a tensor of "
                f"shape {tuple(blank[name].shape)}."
            )
    write_folder(source, target, {}, masks=masks)
