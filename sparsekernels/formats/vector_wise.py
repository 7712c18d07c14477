"""Vector-wise and Shfl-BW: V rows, neighbours or brought together by an order, share columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from sparsekernels.errors import PackError
from sparsekernels.formats.base import (
    PackedWeight,
    check_distinct_rows,
    check_ids,
    check_pointers,
    check_shape,
)
from sparsekernels.formats.matrix import Sheet, check_share
from sparsekernels.ops.operands import Gathered
from sparsekernels.spec import Spec


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class VectorWiseWeight(PackedWeight):
    """Block-CSR over groups of rows: values (vectors, V), a kept column after the other.

    Parameters
    ----------
    indptr
        int64: group g holds the vectors indptr[g]..indptr[g+1].
    indices
        int32: the weight's column of each vector (tap after tap, channels innermost).
    row_ids
        int32: the weight's row at each stored row, -1 padding. The kernel writes each row there,
        so that the order costs nothing.
    """

    kind: ClassVar[str] = "vector"

    indptr: Tensor
    indices: Tensor
    row_ids: Tensor

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...]) -> Self:
        """Return the packed weight of a sheet."""
        sheet = sheet.padded(spec.v, 1)
        groups = len(sheet.rows) // spec.v
        kept = sheet.mask.reshape(groups, spec.v, len(sheet.cols)).any(1)
        check_share(kept, spec.kept, f"vectors of {spec.v} rows", spec.text)
        if len(sheet.cols) and bool((sheet.cols.diff() < 0).any()):  # stored in the weight's order
            back = sheet.cols.argsort()
            kept, sheet = (
                kept[:, back],
                Sheet(
                    sheet.weight[:, back], sheet.mask, sheet.rows, sheet.cols[back], sheet.channels
                ),
            )
        group, col = kept.nonzero(as_tuple=True)
        stacked = sheet.weight.reshape(groups, spec.v, -1)
        indptr = torch.zeros(groups + 1, dtype=torch.int64, device=kept.device)
        indptr[1:] = kept.sum(1).cumsum(0)
        return cls(
            pattern=spec.text,
            shape=shape,
            values=stacked[group, :, col].contiguous(),
            indptr=indptr,
            indices=sheet.cols[col].int(),
            row_ids=sheet.rows.int(),
        )

    def check(self) -> None:
        """See `PackedWeight.check`."""
        if self.values.dim() != 2 or self.indptr.numel() < 1:
            raise PackError(f"values are (vectors, V), got shape {tuple(self.values.shape)}.")
        vectors, v = self.values.shape
        check_pointers("indptr", self.indptr, vectors)
        check_shape("indices", self.indices, (vectors,))
        check_shape("row_ids", self.row_ids, ((self.indptr.numel() - 1) * v,))
        check_ids("indices", self.indices, 0, math.prod(self.shape[1:]))
        check_ids("row_ids", self.row_ids, -1, self.shape[0])
        check_distinct_rows(self.row_ids, self.shape[0])

    @property
    def v(self) -> int:
        """Rows that share columns."""
        return self.values.shape[1]

    @property
    def operands(self) -> Gathered:
        """See `PackedWeight.operands`."""
        rowptr = torch.arange(self.indptr.numel(), device=self.values.device) * self.v
        return Gathered(self.indptr, self.indices, rowptr, self.row_ids, height=self.v)

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        return self.row_ids.numel() - self.shape[0], 0
