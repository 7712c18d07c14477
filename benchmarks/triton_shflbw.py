"""Shfl-BW in a few lines of Triton: the strong and cheap baseline that our kernels must beat."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import sparsekernels as sk


def shflbw(x: Tensor, weight: sk.VectorWiseWeight, tokens: int = 128, columns: int = 32) -> Tensor:
    """Return x W' for activations (tokens, in) and a weight of V = 16, 32, 64 or 128."""
    out, groups = weight.shape[0], weight.indptr.numel() - 1
    y = torch.empty(x.shape[0], out, device=x.device, dtype=x.dtype)
    grid = (groups, -(-x.shape[0] // tokens))
    _kernel()[grid](
        x, weight.values, weight.indptr, weight.indices, weight.row_ids, y,
        x.shape[0], x.stride(0), y.stride(0), V=weight.v, BM=tokens, BK=columns,
    )  # fmt: skip
    return y


def _kernel() -> Any:
    """Return the kernel; Triton is imported, and the kernel made, once."""
    from benchmarks import triton_kernel

    return triton_kernel.shflbw_kernel
