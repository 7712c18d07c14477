"""What calibration keeps of a layer's inputs: sums of squares, and their Gram matrices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from pruning.errors import CalibrationError
from pruning.layers import from_matrix


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """Sums over the inputs that a weight met; float64.

    Features are the columns of the weight's matrix (out, in * taps). Where groups of rows see
    different inputs (a grouped convolution, queries and keys of an attention), each such block of
    consecutive rows has sums of its own.

    Attributes
    ----------
    name
        The weight, for messages.
    rows
        Input vectors that were summed.
    squares
        (blocks, features): the sum of each feature's squares.
    gram
        (blocks, features, features): the sum of x x^T; None where it was not asked for.
    axis
        Dimension of the weight along which its inputs lie (0 for transposed convolutions).
    """

    name: str
    rows: int
    squares: torch.Tensor
    gram: torch.Tensor | None = None
    axis: int = 1

    @property
    def blocks(self) -> int:
        """Number of row blocks with inputs of their own."""
        return len(self.squares)

    def spread(self, shape: torch.Size) -> torch.Tensor:
        """Return the squares in the shape of the weight."""
        out = shape[1 - self.axis]
        features = shape.numel() // out
        if features != self.squares.shape[1] or out % self.blocks:
            raise CalibrationError(
                f"{self.name}: statistics of {self.squares.shape[1]} inputs in {self.blocks} "
                f"blocks do not fit a weight of shape {tuple(shape)}."
            )
        rows = self.squares.repeat_interleave(out // self.blocks, 0)
        return from_matrix(rows, shape, self.axis)

    def grams(self) -> Iterator[torch.Tensor]:
        """Yield each block's mean of x x^T.

        Raises
        ------
        CalibrationError
            None was collected.
        """
        if self.gram is None:
            raise CalibrationError(
                f"{self.name}: no Gram matrix was collected; calibrate with gram=True (transposed "
                "convolutions have none)."
            )
        yield from self.gram / self.rows


class Sums:
    """Adds up batches of one weight's inputs in float64."""

    def __init__(self, name: str, axis: int = 1, *, gram: bool = False) -> None:
        self.name = name
        self.axis = axis
        self.wants_gram = gram
        self.rows = 0
        self.squares: torch.Tensor | None = None
        self.gram: torch.Tensor | None = None

    @torch.no_grad()
    def add(self, values: torch.Tensor) -> None:
        """Add inputs of shape (blocks, rows, features).

        Raises
        ------
        CalibrationError
            A value is NaN or infinite.
        """
        wide = values.detach().double()
        squares = wide.square().sum(1)
        if not bool(squares.isfinite().all()):
            bad = int((~values.isfinite()).sum())
            raise CalibrationError(
                f"{self.name}: its calibration input holds {bad} values that are NaN or infinite "
                f"after {self.rows:,} rows that were in order; repair the batch or leave it out."
            )
        self.rows += wide.shape[1]
        self.squares = squares if self.squares is None else self.squares + squares
        if self.wants_gram:
            product = wide.transpose(1, 2) @ wide
            self.gram = product if self.gram is None else self.gram.add_(product)

    def finish(self) -> Inputs:
        """Return the sums.

        Raises
        ------
        CalibrationError
            No row of data arrived.
        """
        if self.squares is None or not self.rows:
            raise CalibrationError(
                f"{self.name}: calibration never reached it; give data that run through this "
                'layer, or score it without statistics (scores = "magnitude").'
            )
        return Inputs(self.name, self.rows, self.squares, self.gram, self.axis)
