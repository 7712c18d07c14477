"""Fits of many rows with masks of their own, by products of whole matrices.

`pruning.update.refit` factors a matrix for every row that has a mask of its own, which takes some
800 CPU seconds for SmolLM2; a few dozen steps of conjugate gradients come to the same error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


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


def split(
    weight: torch.Tensor,
    gram: torch.Tensor,
    choose: Callable[[torch.Tensor], torch.Tensor],
    *,
    steps: int = 30,
    grip: float = 0.05,
    growth: float = 1.1,
    every: int = 5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sparse values and their mask, found together by splitting operators.

    ADMM between the least squares and the pattern, with a grip of the pattern that grows (ALPS:
    Meng et al., NeurIPS 2024); inputs are scaled to one energy each. Refit the mask afterwards.

    Parameters
    ----------
    gram
        H, positive definite (damped).
    choose
        Values to the mask of those that a pattern keeps of them.
    steps, grip, growth, every
        The grip after so many steps is grip * growth^steps; it changes once in `every` steps.
    """
    scale = gram.diagonal().sqrt()
    values, basis = torch.linalg.eigh(gram / scale[:, None] / scale[None, :])
    values, basis = values.float(), basis.float()
    own = weight.double().mul(scale).float()
    pull = ((own @ basis) * values) @ basis.T
    mask = choose(own)
    sparse, dual = own * mask, torch.zeros_like(own)
    for at in range(steps):
        if at % every == 0:
            solve = (basis / (values + grip)) @ basis.T
        whole = (pull + grip * (sparse - dual)) @ solve
        mask = choose(whole + dual)
        sparse = (whole + dual) * mask
        dual = dual + whole - sparse
        if at % every == every - 1:
            grip, dual = grip * growth**every, dual / growth**every
    return (sparse.double() / scale).to(weight.dtype), mask
