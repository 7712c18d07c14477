"""Distances of bytes on torch devices, for the search of `permsearch`: see its `--device`.

Registered in the entry-point group ``permsearch.kernels``: ``cuda`` and ``cuda:1`` are GPUs,
``torch`` is the processor by the same code. Bytes become float32, whose sums of integers are exact
below 2**24, so every device returns the integers that the processor's own kernel returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from sparsekernels.errors import BuildError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXACT = 1 << 16  # bytes of a row whose sum stays below 2**24
_ROWS = 1024  # rows whose distances are computed at once


class HeldBlock:
    """A block of columns on a device, as float32."""

    def __init__(self, block: NDArray[np.uint8], device: torch.device) -> None:
        self._device = device
        self._block = _floats(block, device)

    def distances(self, left: NDArray[np.uint8], first: int = 0) -> NDArray[np.int32]:
        """Return the sums of absolute differences of rows with columns `first`, ..., int32."""
        right = self._block[first:]
        out = torch.empty(len(left), len(right), dtype=torch.int32)
        for start in range(0, len(left), _ROWS):
            rows = _floats(left[start : start + _ROWS], self._device)
            out[start : start + len(rows)] = _sums(rows, right)
        found: NDArray[Any] = out.numpy()
        return found


class TorchDevice:
    """A torch device as `permsearch.streaming.device` wants it."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"torch:{self.device}"

    def hold(self, block: NDArray[np.uint8]) -> HeldBlock:
        """Take a block of columns, a copy on the device."""
        return HeldBlock(block, self.device)


def cuda(index: str = "") -> TorchDevice:
    """Return a GPU by its number, the current one without.

    Raises
    ------
    BuildError
        There is none, or the number is not one of theirs.
    """
    if not torch.cuda.is_available():
        raise BuildError(
            "torch sees no CUDA GPU here; cpu runs anywhere, and torch runs the same code on the "
            "processor."
        )
    count = torch.cuda.device_count()
    if index and not (index.isdigit() and int(index) < count):
        raise BuildError(f"there are {count} GPUs, numbered from 0.")
    return TorchDevice(f"cuda:{index}" if index else "cuda")


def processor(rest: str = "") -> TorchDevice:
    """Return the processor by way of torch: slow, and the same code that runs on a GPU."""
    if rest:
        raise BuildError("it is torch for the processor, cuda for a GPU.")
    return TorchDevice("cpu")


def _floats(rows: NDArray[np.uint8], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(rows).to(device).to(torch.float32)


def _sums(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the distances, added up over runs of columns that float32 sums exactly."""
    total = torch.zeros(len(left), len(right), dtype=torch.int32, device=left.device)
    for first in range(0, left.shape[1], _EXACT):
        a, b = left[:, first : first + _EXACT], right[:, first : first + _EXACT]
        total += torch.cdist(a, b, p=1.0).to(torch.int32)
    return total.cpu()
