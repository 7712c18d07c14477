"""Masks and values found together, by products of whole matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


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
