"""Block-sparse rows, as `torch.sparse_bsr_tensor` has them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pruning.errors import ExportError

if TYPE_CHECKING:
    import torch


def to_bsr(
    weight: torch.Tensor,
    blocks: tuple[int, int],
    *,
    density: float | None = None,
    name: str = "the weight",
) -> torch.Tensor:
    """Return a weight as a BSR tensor of tiles that are not all zero.

    Parameters
    ----------
    blocks
        Rows and columns of a tile.
    density
        The share of tiles that may be kept, to be checked; None: whatever there is.

    Raises
    ------
    ExportError
        Tiles do not cover the weight, or more of them than the density allows are not zero.

    Examples
    --------
    >>> import torch
    >>> weight = torch.zeros(4, 8)
    >>> weight[2:, :4] = 1.0
    >>> to_bsr(weight, (2, 4)).values().shape
    torch.Size([1, 2, 4])
    """
    weight = weight.detach()
    if weight.dim() != 2:
        raise ExportError(f"{name} has {weight.dim()} dimensions; BSR takes matrices.")
    for axis, size, unit in zip(("rows", "columns"), weight.shape, blocks, strict=True):
        if unit < 1 or size % unit:
            raise ExportError(f"{name}: {size} {axis} are no multiple of {unit}.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse BSR tensor support is in beta")
        found = (weight + 0).to_sparse_bsr(blocks)  # + 0 makes +0.0 of -0.0
    tiles = weight.numel() // (blocks[0] * blocks[1])
    kept = len(found.values())
    if density is not None and kept > round(density * tiles):
        raise ExportError(
            f"{name}: {kept} of {tiles} tiles of {blocks[0]} x {blocks[1]} are not zero, "
            f"{round(density * tiles)} may be; was it masked with that pattern?"
        )
    return found
