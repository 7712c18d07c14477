"""The layout of `torch.sparse.to_sparse_semi_structured`, by PyTorch's own encoder on the CPU.

That encoder takes weights that are not 2:4 without complaint and returns something else, so every
weight is checked first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pruning.errors import ExportError

#: Of each type: rows and columns are multiples of these for CUTLASS kernels, and N:M.
RULES: Mapping[torch.dtype, tuple[int, int, int, int]] = {
    torch.float16: (32, 64, 2, 4),
    torch.bfloat16: (32, 64, 2, 4),
    torch.int8: (16, 128, 2, 4),
    torch.float32: (32, 32, 1, 2),
}


@dataclass(frozen=True, slots=True, eq=False)
class SemiStructured:
    """A packed weight.

    Attributes
    ----------
    values
        (rows, columns / 2), in the weight's type.
    meta
        Positions, in the order that CUTLASS reads them.
    """

    values: torch.Tensor
    meta: torch.Tensor

    def unpack(self) -> torch.Tensor:
        """Return the dense weight with zeros."""
        decode = _converters().sparse_semi_structured_to_dense_cutlass
        if self.values.dtype != torch.float32:
            found: torch.Tensor = decode(self.values, self.meta)
            return found
        # its decoder moves halves of float32 numbers as float16, where some are NaN and change
        ones: torch.Tensor = decode(torch.ones_like(self.values), self.meta)
        return torch.zeros_like(ones).masked_scatter_(ones != 0, self.values)


def _converters() -> Any:
    """Return torch's own encoder and decoder, plain tensor operations without types."""
    from torch.sparse import _semi_structured_conversions

    return _semi_structured_conversions


def violations(weight: torch.Tensor, n: int, m: int) -> int:
    """Return the number of groups of m consecutive columns with more than n non-zeros."""
    groups = (weight != 0).reshape(-1, m).sum(1)
    return int((groups > n).sum())


def obstacle(weight: torch.Tensor) -> str:
    """Return why a weight has no semi-structured form, or an empty string."""
    if weight.dim() != 2:
        return f"it has {weight.dim()} dimensions, not 2"
    if weight.dtype not in RULES:
        return f"there is no layout for {weight.dtype}"
    rows, cols, n, m = RULES[weight.dtype]
    for axis, size, unit in (("rows", weight.shape[0], rows), ("columns", weight.shape[1], cols)):
        if size % unit:
            return f"{size} {axis} are no multiple of {unit}, which {weight.dtype} needs"
    bad = violations(weight, n, m)
    if bad:
        return f"{bad} groups of {m} hold more than {n} non-zeros; {weight.dtype} needs {n}:{m}"
    return ""


def to_semi_structured(weight: torch.Tensor, name: str = "the weight") -> SemiStructured:
    """Return a weight in the layout of PyTorch's semi-structured kernels.

    Raises
    ------
    ExportError
        Its sizes, its type or its zeros do not fit, with the number of groups over the limit.

    Examples
    --------
    >>> import torch
    >>> weight = torch.tensor([[1.0, 0.0] * 16] * 32)
    >>> torch.equal(to_semi_structured(weight).unpack(), weight)
    True
    """
    encode = _converters().sparse_semi_structured_from_dense_cutlass
    weight = weight.detach().contiguous()
    reason = obstacle(weight)
    if reason:
        raise ExportError(f"{name} cannot be packed: {reason}.")
    packed = SemiStructured(*encode(weight))
    if not torch.equal(packed.unpack(), weight):
        raise ExportError(f"{name}: PyTorch's encoder did not give the weight back.")
    return packed


def eligibility(weights: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return, for each weight with rows and columns, why it has no such layout; "" where it has.

    Examples
    --------
    >>> import torch
    >>> eligibility({"w": torch.eye(32), "v": torch.ones(32, 32)})["w"]
    ''
    """
    return {name: obstacle(weight.detach()) for name, weight in weights.items() if weight.dim() > 1}
