"""Least squares of kept weights for many rows of different masks, by conjugate gradients.

`pruning.update.refit` factors a matrix for every row that has a mask of its own, which takes some
800 CPU seconds for SmolLM2; a few dozen products of whole matrices come to the same error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def fitted(
    weight: torch.Tensor,
    mask: torch.Tensor,
    gram: torch.Tensor,
    start: torch.Tensor,
    *,
    steps: int = 100,
    tolerance: float = 1e-4,
) -> torch.Tensor:
    """Return V of least tr((W - V) H (W - V)^T) that is zero where nothing is kept.

    Parameters
    ----------
    gram
        H, positive definite (damped).
    start
        Where to start; its values where nothing is kept do not count.
    steps, tolerance
        It ends after so many steps, or when a step takes less than that share of the error away.
        Rows run side by side, each with step lengths of its own; preconditioned by H's diagonal.
    """
    own, kept = weight.float(), mask.float()
    matrix = gram.float()
    scale = 1.0 / matrix.diagonal()
    found = start.float() * kept
    rest = own - found
    slope = rest @ matrix
    error = float((slope * rest).sum())
    slope = slope * kept
    ahead = slope * scale
    size = (slope * ahead).sum(1)
    for _ in range(steps):
        turned = ahead @ matrix
        length = size / (ahead * turned).sum(1).clamp_min(1e-30)
        found += length[:, None] * ahead
        slope -= length[:, None] * turned * kept
        won = float((length * size).sum())
        error -= won
        if won < tolerance * error:
            break
        conditioned = slope * scale
        after = (slope * conditioned).sum(1)
        ahead = conditioned + (after / size.clamp_min(1e-30))[:, None] * ahead
        size = after
    return found.to(weight.dtype)
