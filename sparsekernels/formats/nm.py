"""N:M: each row keeps n of every m columns, with columns in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from sparsekernels.errors import PackError
from sparsekernels.formats.base import PackedWeight, check_ids, check_shape
from sparsekernels.formats.bits import bits_for, cutlass_order, pack_bits, positions, unpack_bits
from sparsekernels.formats.matrix import Sheet
from sparsekernels.ops.operands import Picked
from sparsekernels.spec import Spec


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class NMWeight(PackedWeight):
    """Values (rows, kept) and positions within each group of m.

    Parameters
    ----------
    metadata
        uint8 (rows, bytes): 2, 4 or 8 bits for each value, lowest first (`bits`).
    n, m
        Kept of every m.
    cols
        int32: the weight's column (tap after tap, channels innermost) at each stored position, 0
        where the column is padding; None where storage follows the weight.
    pad
        Zero columns added to every tap.
    """

    kind: ClassVar[str] = "nm"

    metadata: Tensor
    n: int
    m: int
    cols: Tensor | None = None
    pad: int = 0

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...]) -> Self:
        """Return the packed weight of a sheet; its row order does not matter and is undone."""
        plain = torch.arange(math.prod(shape[1:]), device=sheet.cols.device)
        real = len(plain) if sheet.channels >= len(plain) else shape[1]
        sheet = sheet.padded(1, spec.m)
        over = int((sheet.mask.reshape(-1, spec.m).sum(-1) > spec.n).sum())
        if over:
            raise PackError(
                f"the mask is not {spec.text}: {over} groups of {spec.m} columns keep more than "
                f"{spec.n}; pass the column order under which it is."
            )
        back = sheet.rows.argsort()[int((sheet.rows < 0).sum()) :]
        values, meta = picked_parts(sheet.weight[back], sheet.mask[back], spec.n, spec.m)
        same = torch.equal(sheet.cols, plain) if len(sheet.cols) == len(plain) else False
        return cls(
            pattern=spec.text,
            shape=shape,
            values=values,
            metadata=meta,
            n=spec.n,
            m=spec.m,
            cols=None if same else sheet.cols.clamp(min=0).int(),
            pad=sheet.channels - real,
        )

    @property
    def bits(self) -> int:
        """Width of a position."""
        return bits_for(self.m)

    def check(self) -> None:
        """See `PackedWeight.check`."""
        columns = math.prod(self.shape[1:])
        length = columns if self.cols is None else self.cols.numel()
        if not 1 <= self.n <= self.m <= 32 or length % self.m:
            raise PackError(f"{length} columns are no groups of {self.m}.")
        kept = length // self.m * self.n
        check_shape("values", self.values, (self.shape[0], kept))
        check_meta(self.metadata, self.shape[0], kept, self.n, self.m)
        if self.cols is not None:
            check_ids("cols", self.cols, 0, columns)

    @property
    def operands(self) -> Picked:
        """See `PackedWeight.operands`."""
        return Picked(
            self.metadata, self.cols, None, self.n, self.m, self.bits, max(1, self.shape[0])
        )

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        return 0, self.pad

    def cutlass(self) -> tuple[Tensor, Tensor]:
        """Return values and int16 metadata in the order of PyTorch's CUTLASS kernels (2:4 only).

        They describe the weight in storage order: the activations' columns have to be in `cols`.
        """
        if (self.n, self.m) != (2, 4):
            raise PackError(f"PyTorch's semi-structured kernels take 2:4, not {self.n}:{self.m}.")
        return self.values, cutlass_order(self.metadata)


def picked_parts(weight: Tensor, mask: Tensor, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Return values (rows, kept) and packed positions of a matrix in storage order."""
    places = positions(mask, n, m)
    rows, groups = places.shape[:2]
    values = weight.reshape(rows, groups, m).gather(2, places).reshape(rows, groups * n)
    return values.contiguous(), pack_bits(places.reshape(rows, groups * n), bits_for(m))


def check_meta(meta: Tensor, rows: int, kept: int, n: int, m: int) -> None:
    """Raise PackError unless metadata has its size and names rising places within m columns."""
    bits = bits_for(m)
    if meta.dtype != torch.uint8:
        raise PackError(f"metadata is {meta.dtype}, uint8 is needed.")
    check_shape("metadata", meta, (rows, -(-kept * bits // 8)))
    places = unpack_bits(meta, bits, kept).reshape(rows, kept // n, n)
    if places.numel() and (int(places.max()) >= m or bool((places.diff(dim=-1) <= 0).any())):
        raise PackError(f"metadata names places that do not rise within groups of {m} columns.")
