"""Second-order matrices that stay usable when calibration was thin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from pruning.errors import CalibrationError
from pruning.statistics import Inputs

_TRIES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Damped:
    """A Gram matrix that can be factored.

    Attributes
    ----------
    matrix
        Symmetric, positive definite, float64.
    damping
        The share of the mean diagonal that it took.
    inverse
        Of the matrix; found on the way.
    """

    matrix: torch.Tensor
    damping: float
    inverse: torch.Tensor


#: The damped matrices of a layer, one for each block of rows with inputs of its own.
Solid: TypeAlias = Sequence[Damped]


def solid(inputs: Inputs, damping: float = 0.01) -> Solid:
    """Return a layer's damped Gram matrices, for methods that follow one another to share.

    Raises
    ------
    CalibrationError
        As `damped` does, or no Gram matrix was collected.
    """
    return tuple(damped(gram, damping, inputs.name) for gram in inputs.grams())


def damped(gram: torch.Tensor, damping: float = 0.01, name: str = "the layer") -> Damped:
    """Return a Gram matrix with enough added to its diagonal to have a Cholesky factor.

    Starts from a share `damping` of the mean of the diagonal and raises it tenfold until it is
    enough. An input that was always zero gets a diagonal of the mean, so its weights stay.

    Raises
    ------
    CalibrationError
        The matrix is not finite, or all zero.
    """
    if not damping >= 0:
        raise CalibrationError(f"{name}: damping must be >= 0, got {damping}.")
    gram = gram.double()
    mean = checked_mean(gram, name)
    diagonal = gram.diagonal()
    for attempt in range(_TRIES):
        share = damping if attempt == 0 else max(damping, 1e-6) * 10.0**attempt
        matrix = gram.clone()
        matrix.diagonal().add_(share * mean)
        matrix.diagonal()[diagonal <= 0] = mean
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed) == 0:
            inverse = torch.cholesky_inverse(factor)
            if _well(inverse.diagonal()):
                return Damped(matrix, share, inverse)
    raise CalibrationError(f"{name}: its Gram matrix cannot be inverted even damped.")


def checked_mean(gram: torch.Tensor, name: str) -> float:
    """Return the mean of a Gram matrix's diagonal, refusing one that says nothing."""
    diagonal = gram.diagonal()
    mean = float(diagonal.mean()) if diagonal.numel() else 0.0
    if not 0 < mean < float("inf") or not bool(gram.isfinite().all()):
        raise CalibrationError(
            f"{name}: the Gram matrix of its inputs is zero or not finite; give other "
            'calibration data, or a rule with method = "mask" and scores = "magnitude".'
        )
    return mean


def _well(diagonal: torch.Tensor) -> bool:
    """Whether an inverse's diagonal is finite and positive."""
    return bool((diagonal.isfinite() & (diagonal > 0)).all())


def upper_of(inverse: torch.Tensor) -> torch.Tensor:
    """Return the upper U with U^T U a positive definite matrix, which an inverse is here."""
    upper: torch.Tensor = torch.linalg.cholesky(inverse, upper=True)
    return upper
