"""What a layer has to be for what it puts out in the dense net, on the inputs of the pruned net."""

from __future__ import annotations

import torch

from pruning.curvature import Damped, Solid
from pruning.curvature import solid as solid_of
from pruning.statistics import Inputs
from pruning.update import joined, parts_of


@torch.no_grad()
def corrected(
    weight: torch.Tensor, inputs: Inputs, damping: float = 0.01, *, solid: Solid | None = None
) -> torch.Tensor:
    """Return the dense weight of least |W x - W* x'|^2, x and x' inputs of dense and pruned net.

    Ridge regression towards the stored weight. With H the Gram matrix of the x', the error of any
    V is a constant plus tr((W* - V) H (W* - V)^T), so every method may go on with W* for the
    weight.

    Parameters
    ----------
    inputs
        Of the pruned net, with products; without them the weight itself is returned.
    damping, solid
        As for `pruning.update.refit`.
    """
    if inputs.cross is None:
        return weight.detach()
    solid = solid_of(inputs, damping) if solid is None else solid
    moments = zip(solid, inputs.grams(), inputs.cross / inputs.rows, strict=True)
    parts = parts_of(weight, inputs)
    done = [nearest(part, *each) for part, each in zip(parts, moments, strict=True)]
    return joined(done, weight, inputs)


def nearest(
    matrix: torch.Tensor,
    solid: Damped,
    gram: torch.Tensor,
    cross: torch.Tensor,
    lack: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the corrected rows of one block.

    Parameters
    ----------
    gram, cross
        Means of x' x'^T and of x x'^T.
    lack
        Mean of what is to be added to the outputs times x'^T, if anything.
    """
    wanted = matrix @ (cross - gram + solid.matrix)
    return (wanted if lack is None else wanted + lack) @ solid.inverse
