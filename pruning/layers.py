"""Weights as matrices: output channels by inputs, whatever layout the layer keeps them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def as_matrix(weight: torch.Tensor, axis: int = 1) -> torch.Tensor:
    """Return the contiguous matrix (out, in * taps) of a weight whose inputs lie along `axis`."""
    return canonical(weight, axis).reshape(weight.shape[1 - axis], -1).contiguous()


def from_matrix(matrix: torch.Tensor, shape: torch.Size, axis: int = 1) -> torch.Tensor:
    """Undo `as_matrix` for a weight of that shape."""
    if axis == 1:
        return matrix.reshape(shape)
    turned = (shape[1], shape[0], *shape[2:])
    return matrix.reshape(turned).transpose(0, 1).contiguous()


def canonical(weight: torch.Tensor, axis: int = 1) -> torch.Tensor:
    """Return the view (out, in, *taps) of a weight whose inputs lie along `axis`, 0 or 1.

    For a stack of matrices the axis is that of the stacked tensor: see `turned`.
    """
    return weight if axis == 1 else weight.transpose(0, 1)


def rows_dim(axis: int) -> int:
    """Return the dimension of the rows, beside the one that inputs lie along: 0 where it is free.

    Examples
    --------
    >>> [rows_dim(axis) for axis in range(4)]
    [1, 0, 0, 0]
    """
    return 1 if axis == 0 else 0


def turned(weight: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the view of a tensor with the dimension that a contraction reads moved to place 1."""
    return weight.movedim(dim, 1)


def unturned(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Undo `turned`."""
    return values.movedim(1, dim)
