"""Masks and values found together, by splitting the least squares from the pattern.

ADMM between both, with a grip of the pattern that grows (ALPS: Meng et al., NeurIPS 2024). Inputs
are scaled to one energy each, so that squared values are what an entry is worth by itself. Any
pattern that chooses a mask by scores will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from permsearch.arrays import to_numpy
from permsearch.orders import Order, as_order
from permsearch.patterns import Pattern
from pruning.curvature import Damped, Solid
from pruning.curvature import solid as solid_of
from pruning.statistics import Inputs
from pruning.update import joined, parts_of, refit, under

#: Scores of a weight, in its layout, to the mask that a pattern keeps.
Choose: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Splitting:
    """How long both sides are pulled together, and how fast.

    Parameters
    ----------
    steps
        Of the values and of the mask, in turn.
    grip
        The pattern's weight at first, beside inputs of energy one.
    growth
        The grip after so many steps is grip * growth^steps.
    every
        Steps between two changes of the grip, each of which costs the cube of the features.
    """

    steps: int = 60
    grip: float = 0.05
    growth: float = 1.05
    every: int = 5


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """What splitting came to, in the layout of the weight.

    Attributes
    ----------
    values
        Zero where dropped; still to be refitted.
    mask
        True = kept.
    scores
        What the mask was chosen by at last.
    """

    values: torch.Tensor
    mask: torch.Tensor
    scores: torch.Tensor


@torch.no_grad()
def alps(
    weight: torch.Tensor,
    inputs: Inputs,
    pattern: Pattern,
    *,
    rows: Any = None,
    cols: Any = None,
    damping: float = 0.01,
    how: Splitting | None = None,
    solid: Solid | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight with a pattern and its mask, found together, and refitted.

    ALPS (Meng et al., NeurIPS 2024) for patterns of any kind, in orders of the rows and columns.
    It takes an eigendecomposition of each Gram matrix, and asks the pattern for `how.steps` masks.

    Parameters
    ----------
    pattern
        It lies in the weight seen as (out, in, ...), which that of a layer with inputs along
        dimension 0 is turned to.
    rows, cols
        Position -> output and input channel, the order in which the pattern lies; None: as stored.
    damping
        As in `pruning.curvature.damped`.
    solid
        As for `pruning.update.refit`.

    Returns
    -------
    weight, mask
        In the layout that came in.

    Raises
    ------
    PatternError
        The pattern does not fit the weight.
    CalibrationError
        The Gram matrix says nothing.

    Examples
    --------
    >>> import torch
    >>> from permsearch.patterns import NM
    >>> from pruning.statistics import Inputs
    >>> gram = torch.tensor([[2.0, 1.9], [1.9, 2.0]], dtype=torch.float64)
    >>> inputs = Inputs("layer", 1, gram.diagonal()[None], gram[None])
    >>> alps(torch.tensor([[1.0, 1.0]]), inputs, NM(1, 2), damping=0.0)[0]
    tensor([[1.9500, 0.0000]])
    """
    solid = solid_of(inputs, damping) if solid is None else solid
    places = [
        None if given is None else as_order(given, weight.shape[axis], f"an order of {what}")
        for given, axis, what in (
            (rows, 1 - inputs.axis, "rows"),
            (cols, inputs.axis, "columns"),
        )
    ]

    def choose(scores: torch.Tensor) -> torch.Tensor:
        turned = scores.transpose(0, 1) if inputs.axis == 0 else scores
        found = _kept(pattern, turned, places[0], places[1])
        return found.transpose(0, 1) if inputs.axis == 0 else found

    found = split(weight, solid, inputs, choose, how or Splitting())
    return refit(weight, found.mask, inputs, start=found.values, solid=solid), found.mask


def _kept(
    pattern: Pattern, scores: torch.Tensor, rows: Order | None, cols: Order | None
) -> torch.Tensor:
    values = to_numpy(scores)
    sizes = values.shape[:2]
    place = np.ix_(
        *(np.arange(n) if o is None else o for o, n in zip((rows, cols), sizes, strict=True))
    )
    mask = np.empty(values.shape, bool)
    mask[place] = pattern.keep(np.ascontiguousarray(values[place]))
    return torch.from_numpy(mask).to(scores.device)


@torch.no_grad()
def split(
    weight: torch.Tensor, solid: Solid, inputs: Inputs, choose: Choose, how: Splitting
) -> Split:
    """Return sparse values and their mask; refit them afterwards.

    Parameters
    ----------
    choose
        Gets scores of the weight's shape and returns the mask of what is kept, of that shape.
    """
    sides = [_Side.of(one, part) for one, part in zip(solid, parts_of(weight, inputs), strict=True)]
    grip = how.grip

    def chosen() -> tuple[torch.Tensor, torch.Tensor]:
        energies = joined([side.wanted.square() for side in sides], weight.float(), inputs)
        mask = choose(energies)
        for side, kept in zip(sides, parts_of(mask, inputs), strict=True):
            side.sparse = side.wanted * kept
        return mask, energies

    mask, scores = chosen()
    for at in range(how.steps):
        for side in sides:
            if at % how.every == 0:
                side.hold(grip)
            side.pull(grip)
        mask, scores = chosen()
        tightened = at % how.every == how.every - 1
        more = how.growth**how.every if tightened else 1.0
        for side in sides:
            side.dual = (side.wanted - side.sparse) / more
        grip *= more
    values = joined([side.sparse.double() / side.scale for side in sides], weight, inputs)
    return Split(under(mask, values), mask, scores)


class _Side:
    """A block of rows in float32, its inputs scaled to one energy each."""

    def __init__(
        self, own: torch.Tensor, scale: torch.Tensor, values: torch.Tensor, basis: torch.Tensor
    ) -> None:
        self.scale, self.values, self.basis = scale, values, basis
        self.pulled = ((own @ basis) * values) @ basis.T
        self.wanted, self.sparse, self.dual = own, own, torch.zeros_like(own)
        self.solve = basis

    @classmethod
    def of(cls, solid: Damped, matrix: torch.Tensor) -> _Side:
        """Return the rows of a block, with the eigenvectors of its scaled Gram matrix."""
        scale = solid.matrix.diagonal().sqrt()
        values, basis = torch.linalg.eigh(solid.matrix / scale[:, None] / scale[None, :])
        return cls((matrix * scale).float(), scale, values.float(), basis.float())

    def hold(self, grip: float) -> None:
        """Invert for a grip of the pattern."""
        self.solve = (self.basis / (self.values + grip)) @ self.basis.T

    def pull(self, grip: float) -> None:
        """Fit all values, drawn towards the sparse ones; what is wanted of these is that."""
        whole = (self.pulled + grip * (self.sparse - self.dual)) @ self.solve
        self.wanted = whole + self.dual
