"""Packed tensors of torch itself: the semi-structured layout and block-sparse rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from permsearch.patterns import Block
from pruning.errors import ExportError
from pruning.exports.block import to_bsr
from pruning.exports.files import write_tensors
from pruning.exports.job import Exported, Job
from pruning.exports.layers import MaskedLayer
from pruning.exports.semi_structured import obstacle, to_semi_structured


def write_semi_structured(job: Job) -> Exported:
    """Pack the weights that have such a layout; a file holds ``NAME.values`` and ``NAME.meta``."""
    packed, left = {}, {}
    for layer, weight in job.weights():
        own = weight.to(_dtype(job.options.get("dtype"), weight.dtype))
        why = "its inputs do not lie along axis 1" if layer.axis != 1 else obstacle(own)
        if why:
            left[layer.name] = why
        else:
            packed[layer.name] = to_semi_structured(own, layer.name)
    job.check_left(packed, left)
    parts = {f"{name}.{part}": getattr(found, part)
             for name, found in packed.items() for part in ("values", "meta")}  # fmt: skip
    _write(job, parts)
    return job.done(packed, result=packed, left=left)


def write_bsr(job: Job) -> Exported:
    """Store the tiles that are left; a file holds the three tensors of each weight's BSR form."""
    found, left = {}, {}
    for layer, weight in job.weights():
        blocks = job.options.get("blocks") or _blocks(layer)
        if blocks is None:
            left[layer.name] = f"{layer.entry.pattern} is no pattern of blocks; pass blocks=(4, 4)"
        elif weight.dim() != 2:
            left[layer.name] = f"it has {weight.dim()} dimensions, not 2"
        else:
            found[layer.name] = to_bsr(weight, tuple(blocks), name=layer.name)
    job.check_left(found, left)
    parts: dict[str, torch.Tensor] = {}
    for name, sparse in found.items():
        parts[f"{name}.bsr_crow_indices"] = sparse.crow_indices()
        parts[f"{name}.bsr_col_indices"] = sparse.col_indices()
        parts[f"{name}.bsr_values"] = sparse.values()
    _write(job, parts)
    return job.done(found, result=found, left=left)


def _write(job: Job, parts: Mapping[str, torch.Tensor]) -> None:
    if job.path is not None:
        write_tensors(job.path, parts, {"format": f"permsearch.{job.target}/1"})


def _blocks(layer: MaskedLayer) -> tuple[int, int] | None:
    pattern = layer.entry.pattern
    moved = any(order is not None for order in layer.orders)
    return pattern.tiling if isinstance(pattern, Block) and not moved else None


def _dtype(asked: Any, own: torch.dtype) -> torch.dtype:
    found = getattr(torch, asked, None) if isinstance(asked, str) else asked or own
    if not isinstance(found, torch.dtype):
        raise ExportError(f"{asked!r} is no number type of torch, such as 'float16'.")
    return found
