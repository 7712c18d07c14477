"""The empirical Fisher matrix of a loss, block by block along each weight's rows.

(Kurtic et al., "The Optimal BERT Surgeon", EMNLP 2022, and Frantar et al., "M-FAC", 2021.) With F
the mean of g g^T over gradients g of the loss, the loss grows by half of d^T F d when weights of a
trained model change by d. Keeping F within blocks of consecutive inputs makes it small enough to be
inverted: the blocks of one weight take 8 * block bytes for each of its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import nn

from permsearch.errors import PatternError
from pruning.errors import CalibrationError
from pruning.gradients import each_gradient
from pruning.layers import as_matrix, from_matrix


@dataclass(frozen=True, slots=True, eq=False)
class Fisher:
    """Blocks of a weight's empirical Fisher matrix, damped; float64.

    Attributes
    ----------
    name
        The weight, for messages.
    samples
        Gradients that it is the mean over.
    matrix
        (rows, blocks, size, size), positive definite. The last block of a row is filled up with
        inputs that do not exist.
    """

    name: str
    samples: int
    matrix: torch.Tensor

    def blocks_of(self, weight: torch.Tensor) -> torch.Tensor:
        """Return a weight (or mask) as (rows, blocks, size), filled up with zeros."""
        rows, blocks, size, _ = self.matrix.shape
        matrix = as_matrix(weight)
        if len(matrix) != rows or not blocks * size - size < matrix.shape[1] <= blocks * size:
            raise CalibrationError(
                f"{self.name}: {blocks} blocks of {size} inputs for {rows} rows do not fit "
                f"a weight of shape {tuple(weight.shape)}."
            )
        return _filled(matrix, size)

    def weight_of(self, blocks: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Undo `blocks_of`."""
        matrix = blocks.flatten(1)[:, : shape.numel() // shape[0]]
        return from_matrix(matrix, shape)


def empirical_fisher(
    model: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any, Any], torch.Tensor],
    *,
    names: Iterable[str] | None = None,
    block: int = 64,
    damping: float = 0.01,
) -> dict[str, Fisher]:
    """Return the blocks of the empirical Fisher matrix of each weight.

    Each batch gives one gradient: batches of one example give the matrix by its definition.

    Parameters
    ----------
    loss
        (output, batch) to a scalar.
    names
        Parameters by name; None: all with rows and columns.
    block
        Consecutive inputs that are taken together.
    damping
        Share of the mean of each weight's diagonal that is added to it.

    Raises
    ------
    CalibrationError
        As `pruning.gradients`, and for a weight whose gradients are all zero.
    """
    sums: dict[str, torch.Tensor] = {}
    count = 0
    for found in each_gradient(model, batches, loss, names=names):
        for name, gradient in found.items():
            own = _filled(as_matrix(gradient.double()), block)
            product = own[..., :, None] * own[..., None, :]
            sums[name] = sums[name].add_(product) if name in sums else product
        count += 1
    return {name: _damped(name, total / count, damping, count) for name, total in sums.items()}


def _filled(matrix: torch.Tensor, size: int) -> torch.Tensor:
    missing = -matrix.shape[1] % size
    return nn.functional.pad(matrix, (0, missing)).reshape(len(matrix), -1, size)


def _damped(name: str, matrix: torch.Tensor, damping: float, count: int) -> Fisher:
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    mean = float(diagonal.mean())
    if not mean > 0:
        raise CalibrationError(f"{name}: all its gradients are zero; the loss does not see it.")
    diagonal += damping * mean
    return Fisher(name, count, matrix)


def obs_fisher(weight: torch.Tensor, fisher: Fisher) -> torch.Tensor:
    """Return ``w ** 2 / (2 (F^-1)_ii)``: the loss that a weight costs if its block adjusts to it.

    A score for searches and masks like those of `pruning.scores`.
    """
    inverse = torch.linalg.inv(fisher.matrix).diagonal(dim1=-2, dim2=-1)
    blocks = fisher.blocks_of(weight.detach().double())
    found = fisher.weight_of(blocks.square() / (2 * inverse), weight.shape)
    return found if weight.dtype == torch.float64 else found.float()


def fisher_mask(weight: torch.Tensor, fisher: Fisher, n: int, m: int) -> torch.Tensor:
    """Return an N:M mask whose groups cost little loss, dropped weights taken jointly.

    In each block, the group that costs least goes first, with the set Q of its weights of least
    ``w_Q^T ((F^-1)_QQ)^-1 w_Q / 2``; the others adjust, Q is taken out of F^-1, and so on.
    `obs_fisher` prices weights one by one, each as if all others could still adjust.

    Parameters
    ----------
    n, m
        Kept of every m consecutive inputs, of a matrix (out, in).

    Raises
    ------
    PatternError
        Groups do not fit the weight or the blocks.
    """
    rows, blocks, size, _ = fisher.matrix.shape
    if weight.dim() != 2 or weight.shape[1] % m or size % m:
        raise PatternError(
            f"{fisher.name}: groups of {m} do not fit a weight of shape {tuple(weight.shape)} in "
            f"blocks of {size}."
        )
    values = fisher.blocks_of(weight.detach().double()).flatten(0, 1).clone()
    inverse = torch.linalg.inv(fisher.matrix).flatten(0, 1)
    kept = torch.ones_like(values, dtype=torch.bool)
    sets = torch.tensor(list(combinations(range(m), m - n)), device=values.device)
    for _ in range(size // m):
        _drop_cheapest_(inverse, values, kept, sets, m)
    return fisher.weight_of(kept.reshape(rows, blocks, size), weight.shape)


def _drop_cheapest_(
    inverse: torch.Tensor, values: torch.Tensor, kept: torch.Tensor, sets: torch.Tensor, m: int
) -> None:
    """Drop the cheapest set of weights of each block's cheapest group that is still whole."""
    every = torch.arange(len(values), device=values.device)[:, None]
    firsts = torch.arange(0, values.shape[1], m, device=values.device)
    places = firsts[:, None, None] + sets  # (groups, sets, dropped)
    some = values[:, places]
    own = inverse[:, places[..., :, None], places[..., None, :]]
    costs = (some * torch.linalg.solve(own, some)).sum(-1)
    done = ~kept.reshape(len(kept), -1, m).all(-1)
    best = costs.masked_fill(done[:, :, None], torch.inf).flatten(1).argmin(1)
    dropped = places.flatten(0, 1)[best]  # (blocks, dropped)
    columns = inverse[every, :, dropped].transpose(1, 2)
    pivot = inverse[every[:, :, None], dropped[:, :, None], dropped[:, None, :]]
    share = torch.linalg.solve(pivot, columns.transpose(1, 2))
    values -= (share.transpose(1, 2) @ values.gather(1, dropped)[..., None])[..., 0]
    inverse -= columns @ share
    inverse[every, dropped, dropped] = 1.0  # their rows and columns are zero from now on
    values.scatter_(1, dropped, 0.0)
    kept.scatter_(1, dropped, value=False)


def fisher_update(weight: torch.Tensor, mask: torch.Tensor, fisher: Fisher) -> torch.Tensor:
    """Return the masked weight whose kept entries made up for the loss of the dropped ones.

    ``w - F^-1 E_Q ((F^-1)_QQ)^-1 w_Q`` in each block; exactly zero where dropped.
    """
    values, kept = fisher.blocks_of(weight.detach().double()), fisher.blocks_of(mask)
    both = kept[..., :, None] & kept[..., None, :]
    identity = torch.eye(kept.shape[-1], dtype=torch.float64, device=kept.device)
    system = torch.where(both, fisher.matrix, identity)
    right = torch.where(kept, (fisher.matrix @ values[..., None])[..., 0], 0.0)
    solved = torch.linalg.solve(system, right) * kept
    found = fisher.weight_of(solved, weight.shape).to(weight.dtype)
    return torch.where(mask, found, found.new_zeros(()))
