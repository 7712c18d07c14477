"""What calibration keeps of a layer's inputs: sums of squares, and their Gram matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    cross
        (blocks, features, features): the sum of x x'^T, where x' are these inputs and x those of
        the dense net; see `pruning.correction`.
    """

    name: str
    rows: int
    squares: torch.Tensor
    gram: torch.Tensor | None = None
    axis: int = 1
    cross: torch.Tensor | None = None

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


@dataclass(slots=True, eq=False)
class Total:
    """What was added up so far, for all weights whose inputs have been the same until now.

    Attributes
    ----------
    holders
        How many weights that is.
    """

    rows: int = 0
    squares: torch.Tensor | None = None
    gram: torch.Tensor | None = None
    holders: int = 0


class Sums:
    """Adds up batches of one weight's inputs in float64.

    Parameters
    ----------
    total
        What other weights start with as well: see `LastInput`.
    """

    def __init__(
        self, name: str, axis: int = 1, *, gram: bool = False, total: Total | None = None
    ) -> None:
        self.name = name
        self.axis = axis
        self.wants_gram = gram
        self.total = Total() if total is None else total
        self.total.holders += 1

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
                f"after {self.total.rows:,} rows that were in order; repair the batch or leave it "
                "out."
            )
        before, own = self.total, self._alone()
        own.rows = before.rows + wide.shape[1]
        own.squares = squares if before.squares is None else before.squares + squares
        if self.wants_gram:
            product = wide.transpose(1, 2) @ wide
            if before.gram is not None:
                product = before.gram.add_(product) if own is before else before.gram + product
            own.gram = product

    def move(self, total: Total) -> None:
        """Go by another total from now on."""
        self.total.holders -= 1
        self.total = total
        total.holders += 1

    def part(self) -> None:
        """Hold a copy of the sums, apart from other weights."""
        before = self.total
        own = self._alone()
        if own is not before:
            own.rows = before.rows
            own.squares = None if before.squares is None else before.squares.clone()
            own.gram = None if before.gram is None else before.gram.clone()

    def _alone(self) -> Total:
        """Return a total to write into that no other weight goes by."""
        if self.total.holders > 1:
            self.move(Total())
        return self.total

    def finish(self) -> Inputs:
        """Return the sums.

        Raises
        ------
        CalibrationError
            No row of data arrived.
        """
        own = self.total
        if own.squares is None or not own.rows:
            raise CalibrationError(
                f"{self.name}: calibration never reached it; give data that run through this "
                'layer, or score it without statistics (scores = "magnitude").'
            )
        return Inputs(self.name, own.rows, own.squares, own.gram, self.axis)


class LastInput:
    """The tensor that a layer has read last, so that the next one need not add it up again.

    Queries, keys and values read one tensor. Weights whose inputs have been the same all along
    hold one total; each takes over the sums that the first of them has made, which gives the
    same bits.
    """

    def __init__(self) -> None:
        self.value: torch.Tensor | None = None  # held, so that no other comes to lie in its place
        self.version = -1
        self.steps: list[tuple[Total, Total]] = []

    def add(self, sums: Sums, value: torch.Tensor, rows: Callable[[], torch.Tensor]) -> None:
        """Add the rows of a tensor to a weight's sums, unless that has been done.

        Parameters
        ----------
        rows
            Returns (blocks, rows, features), the same for all weights that read the tensor.
        """
        if not self._is(value):
            self.value, self.version, self.steps = value, _version(value), []
        before = sums.total
        done = next((after for old, after in self.steps if old is before), None)
        if done is not None:
            sums.move(done)
        else:
            sums.add(rows())
            if sums.total is before:  # written into: no longer what others arrive at
                self.steps = [step for step in self.steps if before not in step]
            else:
                self.steps.append((before, sums.total))
        self.steps = [step for step in self.steps if step[0].holders]  # others free their memory

    def _is(self, value: torch.Tensor) -> bool:
        """Whether it is the tensor of before, or the same view of the same memory, unchanged."""
        last = self.value
        if last is None or self.version < 0 or _version(value) != self.version:
            return False
        return last is value or (
            last.dtype == value.dtype
            and last.layout == value.layout == torch.strided
            and last.shape == value.shape
            and last.stride() == value.stride()
            and last.data_ptr() == value.data_ptr()
            and last.device == value.device
        )


def _version(value: torch.Tensor) -> int:
    """Return how often a tensor was written into; -1 where nobody counts."""
    return -1 if value.is_inference() else value._version  # noqa: SLF001
