"""Dense blocks on a grid of the rows and columns in their orders."""

from __future__ import annotations

import math
import warnings
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
class BlockWeight(PackedWeight):
    """BSR with blocks of w columns by h rows, column first: values (blocks, w, h).

    Parameters
    ----------
    indptr
        int64: row of blocks r holds the blocks indptr[r]..indptr[r+1].
    indices
        int32: each block's place in its row of blocks.
    row_ids, col_ids
        int32: the weight's row and column at each stored one, -1 padding.
    """

    kind: ClassVar[str] = "block"

    indptr: Tensor
    indices: Tensor
    row_ids: Tensor
    col_ids: Tensor

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...]) -> Self:
        """Return the packed weight of a sheet."""
        sheet = sheet.padded(spec.v, spec.w)
        high, wide = len(sheet.rows) // spec.v, len(sheet.cols) // spec.w
        grid = (high, spec.v, wide, spec.w)
        some = sheet.mask.reshape(grid).any(3).any(1)
        check_share(some, spec.kept, "blocks", spec.text)
        row, col = some.nonzero(as_tuple=True)
        indptr = torch.zeros(high + 1, dtype=torch.int64, device=some.device)
        indptr[1:] = some.sum(1).cumsum(0)
        return cls(
            pattern=spec.text,
            shape=shape,
            values=sheet.weight.reshape(grid)[row, :, col, :].transpose(1, 2).contiguous(),
            indptr=indptr,
            indices=col.int(),
            row_ids=sheet.rows.int(),
            col_ids=sheet.cols.int(),
        )

    def check(self) -> None:
        """See `PackedWeight.check`."""
        if self.values.dim() != 3 or 0 in self.values.shape[1:]:
            raise PackError(f"values are (blocks, w, h), got shape {tuple(self.values.shape)}.")
        blocks, w, h = self.values.shape
        check_pointers("indptr", self.indptr, blocks)
        check_shape("indices", self.indices, (blocks,))
        check_shape("row_ids", self.row_ids, ((self.indptr.numel() - 1) * h,))
        if self.col_ids.dim() != 1 or self.col_ids.numel() % w:
            raise PackError(f"{self.col_ids.numel()} columns are no blocks of {w}.")
        check_ids("indices", self.indices, 0, self.col_ids.numel() // w)
        check_ids("row_ids", self.row_ids, -1, self.shape[0])
        check_ids("col_ids", self.col_ids, -1, math.prod(self.shape[1:]))
        check_distinct_rows(self.row_ids, self.shape[0])

    @property
    def operands(self) -> Gathered:
        """See `PackedWeight.operands`; a padded column is any column, its values are zero."""
        _, w, h = self.values.shape
        inside = torch.arange(w, device=self.values.device)
        stored = (self.indices.long()[:, None] * w + inside).reshape(-1)
        rowptr = torch.arange(self.indptr.numel(), device=self.values.device) * h
        cols = self.col_ids[stored].clamp(min=0)
        return Gathered(self.indptr * w, cols, rowptr, self.row_ids, height=h)

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        rows, columns = self.shape[0], math.prod(self.shape[1:])
        return self.row_ids.numel() - rows, self.col_ids.numel() - columns

    def to_bsr(self) -> Tensor:
        """Return a torch BSR tensor of the weight in storage order (rows and columns padded)."""
        size = (self.row_ids.numel(), self.col_ids.numel())
        blocks = self.values.transpose(1, 2).contiguous()
        with warnings.catch_warnings():  # torch says once that the layout is in beta
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_bsr_tensor(
                self.indptr, self.indices.long(), blocks, size=size, check_invariants=True
            )
