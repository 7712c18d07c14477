"""New values for the weights that stay, so that a layer's outputs change least. No training.

Matrices are (rows, features) as `pruning.statistics.Inputs` counts them, H is a block's Gram
matrix; the error of new weights V is tr((W - V) H (W - V)^T), the mean squared change of the
outputs over the calibration rows, summed over output channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pruning.curvature import Solid
from pruning.curvature import solid as solid_of
from pruning.layers import as_matrix, from_matrix
from pruning.least_squares import least_squares
from pruning.statistics import Inputs
from pruning.sweep import Choose, best_of_group, feature_order, swept


def output_error(weight: torch.Tensor, new: torch.Tensor, inputs: Inputs) -> float:
    """Return the mean squared change of a layer's outputs, summed over channels, in float64."""
    change = as_matrix((weight.detach().double() - new.detach().double()), inputs.axis)
    parts = zip(change.chunk(inputs.blocks), inputs.grams(), strict=True)
    return sum(float(((part @ gram) * part).sum()) for part, gram in parts)


@torch.no_grad()
def refit(
    weight: torch.Tensor,
    mask: torch.Tensor,
    inputs: Inputs,
    damping: float = 0.01,
    *,
    start: torch.Tensor | None = None,
    solid: Solid | None = None,
) -> torch.Tensor:
    """Return the weight whose kept entries are those of least output error.

    Least squares of each row on the inputs that it keeps: see `pruning.least_squares`, which takes
    the quickest way. What is minimized is the error with the damped Gram matrix, and each row ends
    within `pruning.least_squares.TOLERANCE` of the least, as a share of it.

    Parameters
    ----------
    mask
        Boolean, true = kept, of the weight's shape.
    damping
        As in `pruning.curvature.damped`; it draws towards the values as they were.
    start
        Values under this mask that are nearly right already, of a sweep for instance; they cost
        or save steps, and change nothing else.
    solid
        `pruning.curvature.solid` of the inputs, where there is one already; `damping` is not
        looked at then.

    Returns
    -------
    torch.Tensor
        In the weight's type, exactly zero where dropped.
    """
    solid = solid_of(inputs, damping) if solid is None else solid
    matrices, masks = parts_of(weight, inputs), parts_of(mask, inputs)
    starts = [None] * len(matrices) if start is None else parts_of(start, inputs)
    done = [least_squares(*each) for each in zip(solid, matrices, masks, starts, strict=True)]
    return under(mask, joined(done, weight, inputs))


def parts_of(weight: torch.Tensor, inputs: Inputs) -> Sequence[torch.Tensor]:
    """Return the rows of each block as matrices: float64, or boolean for a mask."""
    wide = weight.detach() if weight.dtype == torch.bool else weight.detach().double()
    return as_matrix(wide, inputs.axis).chunk(inputs.blocks)


def joined(parts: Sequence[torch.Tensor], weight: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Undo `parts_of`, in the shape of the weight, and in its type unless it is a mask."""
    found = from_matrix(torch.cat(tuple(parts)), weight.shape, inputs.axis)
    return found if found.dtype == torch.bool else found.to(weight.dtype)


def under(mask: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return values that are exactly +0.0 where a mask drops them."""
    return torch.where(mask, values, values.new_zeros(()))


@torch.no_grad()
def compensate(
    weight: torch.Tensor,
    mask: torch.Tensor,
    inputs: Inputs,
    *,
    damping: float = 0.01,
    order: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a masked weight whose later columns made up for the earlier ones' zeros.

    The sweep of SparseGPT (Frantar & Alistarh, ICML 2023) for a mask that is given.

    Parameters
    ----------
    order
        The sweep's order of the features; as stored without it.
    """
    features = weight.numel() // weight.shape[1 - inputs.axis]
    places = torch.arange(features) if order is None else order
    done = []
    for one, part, kept in zip(
        solid_of(inputs, damping), parts_of(weight, inputs), parts_of(mask, inputs), strict=True
    ):
        done.append(swept(one, part, places, _given(kept[:, places]))[0])
    return under(mask, joined(done, weight, inputs))


def _given(kept: torch.Tensor) -> Choose:
    """Return what keeps, column by column, what a mask keeps that lies in the sweep's order."""
    return lambda at, _: kept[:, at : at + 1]


@torch.no_grad()
def sparsegpt(
    weight: torch.Tensor,
    inputs: Inputs,
    n: int,
    m: int,
    *,
    damping: float = 0.01,
    cols: torch.Tensor | None = None,
    solid: Solid | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight with N:M sparsity and its mask, chosen group by group on the way.

    SparseGPT (Frantar & Alistarh, ICML 2023), sweeping in the order of the columns that the
    groups are made in: with H permuted alike it runs on permuted weights as it stands.

    Parameters
    ----------
    cols
        Position -> input channel; groups are m consecutive positions, at each tap.
    solid
        As for `refit`.

    Returns
    -------
    weight, mask
        In the layout that came in.
    """
    solid = solid_of(inputs, damping) if solid is None else solid
    parts = parts_of(weight, inputs)
    order = feature_order(weight.shape[inputs.axis], parts[0].shape[1], cols)
    found = [
        swept(one, part, order, best_of_group(n), step=m)
        for one, part in zip(solid, parts, strict=True)
    ]
    mask = joined([kept for _, kept in found], weight, inputs)
    return under(mask, joined([values for values, _ in found], weight, inputs)), mask
