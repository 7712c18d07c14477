"""What every packed weight offers, whatever its pattern."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from sparsekernels.errors import PackError
from sparsekernels.formats.matrix import from_matrix
from sparsekernels.ops.operands import Operands


@dataclass(frozen=True, eq=False, kw_only=True)
class PackedWeight(ABC):
    """The kept entries of a weight and where they stand, laid out for a kernel.

    Parameters
    ----------
    pattern
        The pattern's text.
    shape
        Shape of the weight: (out, in) or (out, in, *k).
    values
        The kept entries; floating point. Everything else is indices.
    """

    kind: ClassVar[str] = ""

    pattern: str
    shape: tuple[int, ...]
    values: Tensor

    def __post_init__(self) -> None:
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Raise PackError unless every index points into the weight and all sizes agree."""

    @property
    @abstractmethod
    def operands(self) -> Operands:
        """What the operations take, beside the activations."""

    @property
    @abstractmethod
    def padded(self) -> tuple[int, int]:
        """Zero rows and columns that were added to fill the pattern's tiles."""

    def numbers(self) -> dict[str, int]:
        """Return the format's own numbers, as `from_parts` needs them."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.type in ("int", int)
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name; absent ones are left out."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    @classmethod
    def from_parts(
        cls,
        pattern: str,
        shape: tuple[int, ...],
        tensors: Mapping[str, Tensor],
        numbers: Mapping[str, int],
    ) -> Self:
        """Return the weight of these parts, checked."""
        names = {field.name for field in dataclasses.fields(cls)} - {"pattern", "shape"}
        needed = {
            field.name
            for field in dataclasses.fields(cls)
            if field.default is dataclasses.MISSING and field.name in names
        }
        given = {**tensors, **numbers}
        if not needed <= given.keys() <= names:
            raise PackError(
                f"a {cls.kind} weight has the parts {sorted(names)}, got {sorted(given)}."
            )
        return cls(pattern=pattern, shape=tuple(shape), **given)  # type: ignore[arg-type]

    def unpack(self) -> Tensor:
        """Return the masked dense weight, of `shape`; kept entries are bit for bit the same."""
        from sparsekernels.ops.reference import dense_of

        columns = math.prod(self.shape[1:])
        matrix = dense_of(self.values, self.operands, self.shape[0], columns)
        return from_matrix(matrix, self.shape)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the weight on another device or with values of another float type."""
        values = self.values.to(*args, **kwargs)
        moved: dict[str, Any] = {
            name: values if name == "values" else tensor.to(values.device)
            for name, tensor in self.tensors().items()
        }
        if "overlay" in moved:
            moved["overlay"] = moved["overlay"].to(values.dtype)
        return dataclasses.replace(self, **moved)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors().values())

    @property
    def density(self) -> float:
        """Stored values, padding included, as a share of the weight's entries."""
        return self.values.numel() / max(1, math.prod(self.shape))

    def __repr__(self) -> str:
        rows, cols = self.padded
        told = f", padded by {rows} rows and {cols} columns" if rows or cols else ""
        size = "x".join(map(str, self.shape))
        kind = str(self.values.dtype).removeprefix("torch.")
        return f"{type(self).__name__}({self.pattern}, {size}, {kind}, {self.nbytes} bytes{told})"


def check_ids(name: str, ids: Tensor, low: int, limit: int) -> None:
    """Raise PackError unless integers lie in low..limit-1."""
    if ids.dtype not in (torch.int32, torch.int64, torch.uint8):
        raise PackError(f"{name} is {ids.dtype}; integers are needed.")
    if ids.numel() and not (int(ids.min()) >= low and int(ids.max()) < limit):
        raise PackError(
            f"{name} reaches from {int(ids.min())} to {int(ids.max())}, outside {low}..{limit - 1}."
        )


def check_pointers(name: str, pointers: Tensor, count: int) -> None:
    """Raise PackError unless pointers rise from 0 to count."""
    rises = pointers.dtype == torch.int64 and pointers.dim() == 1 and pointers.numel() > 0
    if (
        not rises
        or int(pointers[0]) != 0
        or int(pointers[-1]) != count
        or bool((pointers.diff() < 0).any())
    ):
        raise PackError(f"{name} does not rise from 0 to {count}.")


def check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Raise PackError unless a tensor has this shape."""
    if tuple(tensor.shape) != shape:
        raise PackError(f"{name} has the shape {tuple(tensor.shape)}, {shape} is needed.")


def check_distinct_rows(rows: Tensor, out: int) -> None:
    """Raise PackError where a row of the output is made twice."""
    valid = rows[rows >= 0].long()
    if int(torch.bincount(valid, minlength=max(out, 1)).max()) > 1:
        raise PackError("two packed rows have the same place in the output.")
