"""Packed weights and layers of sparsekernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from permsearch.errors import FileError
from pruning.errors import ExportError
from pruning.exports.job import Exported, Job
from pruning.exports.layers import MaskedLayer


@dataclass(frozen=True, slots=True)
class _Entry:
    """What sparsekernels reads of a mask."""

    mask: torch.Tensor
    pattern: str
    rows: Any
    cols: Any
    tiles: Any


def write(job: Job) -> Exported:
    """Pack weights; of a model, return the copy with packed layers in place of dense ones."""
    import sparsekernels as sk

    packed, left = {}, {}
    for layer, weight in job.weights():
        own = _entry(layer)
        try:
            if layer.axis != 1:
                raise sk.PackError("its inputs do not lie along axis 1.")
            packed[layer.name] = sk.pack(
                weight, own.mask, own.pattern, own.rows, own.cols, tiles=own.tiles
            )
        except sk.KernelError as error:
            left[layer.name] = str(error)
    entries = {layer.module: _entry(layer) for layer in job.layers if layer.name in packed}
    if job.model is not None and entries:
        try:
            swaps = sk.swap_modules_(job.model, entries)
        except sk.PackError as error:
            raise ExportError(f"{job.target}: {error}") from error
        for line in swaps:
            if line.reason:  # the weight packs, the layer has no counterpart
                name = next(n for n in packed if n == f"{line.name}.weight")
                left[name] = line.reason
                del packed[name]
    job.check_left(packed, left)
    if job.path is not None:
        try:
            sk.save_packed(packed, job.path)
        except OSError as error:
            raise FileError(
                f"{job.path}: cannot be written ({error.strerror or error})."
            ) from error
    result = job.model if job.model is not None else packed
    return job.done(packed, result=result, left=left)


def _entry(layer: MaskedLayer) -> _Entry:
    tiles = layer.entry.tiles
    as_tensors = [None if o is None else torch.from_numpy(o.copy()) for o in (*layer.orders, tiles)]
    return _Entry(layer.mask, str(layer.entry.pattern), *as_tensors)
