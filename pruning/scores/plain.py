"""The scores themselves: >= 0, of the weight's shape, float32 (float64 for float64 weights).

Symbols: W a weight ``(out, in)`` or a convolution's, x_j the values that its j-th input took in
calibration, H = sum of x x^T over them.
"""

from __future__ import annotations

from typing import Any

import torch

from permsearch.errors import ScoresError
from pruning.curvature import damped
from pruning.layers import as_matrix, from_matrix
from pruning.statistics import Inputs


def magnitude(weight: torch.Tensor) -> torch.Tensor:
    """Return ``|W|``.

    Examples
    --------
    >>> import torch
    >>> magnitude(torch.tensor([[-2.0, 1.0]]))
    tensor([[2., 1.]])
    """
    return _wide(weight).abs()


def energy(weight: torch.Tensor) -> torch.Tensor:
    """Return ``W ** 2``: the squared norm that goes with a dropped weight.

    Examples
    --------
    >>> import torch
    >>> energy(torch.tensor([[-2.0, 1.0]]))
    tensor([[4., 1.]])
    """
    return _wide(weight).square()


def wanda(weight: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Return ``|W_ij| * ||x_j||`` (Sun et al., "A Simple and Effective Pruning Approach", 2023).

    The norm is the root mean square over the calibration set, so that scores do not grow with it.

    Examples
    --------
    >>> import torch
    >>> import pruning
    >>> layer = torch.nn.Linear(2, 1)
    >>> inputs = pruning.calibrate(layer, [torch.tensor([[3.0, 1.0]])])["weight"]
    >>> wanda(torch.tensor([[-2.0, 1.0]]), inputs)
    tensor([[6., 1.]])
    """
    return magnitude(weight) * _norms(weight, inputs)


def wanda_squared(weight: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Return ``(|W_ij| * ||x_j||) ** 2``: the output energy that goes with a dropped weight.

    Exactly so if inputs were uncorrelated; sums over weights therefore mean something, which is
    why searches use it where calibration data are given.

    Examples
    --------
    >>> import torch
    >>> import pruning
    >>> layer = torch.nn.Linear(2, 1)
    >>> inputs = pruning.calibrate(layer, [torch.tensor([[3.0, 1.0]])])["weight"]
    >>> wanda_squared(torch.tensor([[-2.0, 1.0]]), inputs)
    tensor([[36.,  1.]])
    """
    return wanda(weight, inputs).square()


def ria(weight: torch.Tensor, inputs: Inputs | None = None, power: float = 0.5) -> torch.Tensor:
    """Return ``(|W| / its column's sum + |W| / its row's sum) * ||x_j|| ** power``.

    Relative importance and activations (Zhang et al., "Plug-and-Play", ICLR 2024). Rows and
    columns are those of the matrix of output channels by inputs and taps. A row or column of
    zeros counts for nothing instead of dividing by zero.

    Examples
    --------
    >>> import torch
    >>> ria(torch.tensor([[2.0, 1.0], [2.0, 3.0]]))
    tensor([[1.1667, 0.5833],
            [0.9000, 1.3500]])
    """
    size = magnitude(weight)
    axis = 1 if inputs is None else inputs.axis
    matrix = as_matrix(size, axis)
    shares = [
        matrix / total.clamp_min(torch.finfo(matrix.dtype).tiny)
        for total in (matrix.sum(0, keepdim=True), matrix.sum(1, keepdim=True))
    ]
    relative = from_matrix(shares[0] + shares[1], size.shape, axis)
    return relative if inputs is None else relative * _norms(weight, inputs).pow(power)


def taylor(weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Return ``|W * dL/dW|``, the first-order change of the loss without a weight.

    (Molchanov et al., "Importance Estimation for Neural Network Pruning", CVPR 2019.)

    Examples
    --------
    >>> import torch
    >>> taylor(torch.tensor([[-2.0, 1.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([[1.0000, 0.5000]])
    """
    _same_shape(weight, gradient, "the gradient")
    return magnitude(weight) * _wide(gradient).abs().to(_wide(weight).dtype)


def obs_diagonal(weight: torch.Tensor, inputs: Inputs, damping: float = 0.01) -> torch.Tensor:
    """Return ``W_ij ** 2 / (H^-1)_jj``: the error left if all others of the row were refitted.

    Optimal Brain Surgeon (Hassibi & Stork 1992) with a layer's output as the loss. It prices a
    weight as if the others were going to be adjusted: use it with the refit, not without.

    Parameters
    ----------
    damping
        Share of the mean of H's diagonal that is added to it; raised tenfold as often as the
        matrix needs to be invertible (with fewer rows of data than inputs, say).

    Examples
    --------
    >>> import torch
    >>> import pruning
    >>> layer = torch.nn.Linear(2, 1)
    >>> inputs = pruning.calibrate(layer, [torch.eye(2)], gram=True)["weight"]
    >>> obs_diagonal(torch.tensor([[-2.0, 1.0]]), inputs, damping=0.0)
    tensor([[2.0000, 0.5000]])
    """
    matrix = as_matrix(energy(weight), inputs.axis)
    rows = len(matrix) // inputs.blocks
    for block, gram in enumerate(inputs.grams()):
        price = damped(gram, damping).inverse.diagonal().to(matrix)
        matrix[block * rows : (block + 1) * rows] /= price
    return from_matrix(matrix, weight.shape, inputs.axis)


def external(weight: torch.Tensor, values: Any, name: str = "the weight") -> torch.Tensor:
    """Return importances that come from elsewhere, checked against the weight they are for.

    Raises
    ------
    ScoresError
        Another shape, a negative value, NaN or an infinity; the message names the place.

    Examples
    --------
    >>> import torch
    >>> external(torch.zeros(1, 2), torch.tensor([[1.0, 3.0]]))
    tensor([[1., 3.]])
    """
    from permsearch.arrays import as_scores

    found = torch.from_numpy(as_scores(values, name))
    _same_shape(weight, found, f"the scores of {name}")
    return found


def _norms(weight: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Return the root mean square of the input of each weight, in the weight's shape."""
    squares = inputs.spread(weight.shape) / inputs.rows
    return squares.sqrt().to(_wide(weight))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a detached contiguous copy in a type that sums can be made of."""
    if tensor.is_complex() or not tensor.is_floating_point():
        raise ScoresError(f"a weight of {tensor.dtype} has no magnitude order; convert it first.")
    tensor = tensor.detach()
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return tensor.to(wide, copy=True, memory_format=torch.contiguous_format)


def _same_shape(weight: torch.Tensor, other: torch.Tensor, what: str) -> None:
    if weight.shape != other.shape:
        raise ScoresError(
            f"{what} has shape {tuple(other.shape)}, the weight has {tuple(weight.shape)}."
        )
