"""Tile-wise: whole rows are dropped, the others packed into tiles that share kept columns.

Single entries outside the tiles lie on top as CSR.
"""

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
from sparsekernels.formats.matrix import Sheet
from sparsekernels.ops.operands import Gathered
from sparsekernels.spec import Spec

ROWS = 8  # the kernels take rows in eights


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TileWiseWeight(PackedWeight):
    """Tiles of any size, one after the other, each with its lists; values column first.

    Parameters
    ----------
    colptr, rowptr
        int64: the part of `cols` and of `rows` that belongs to each tile. Dropped rows are in
        tiles without columns, so that every row of the output is written.
    cols, rows
        int32: kept columns and rows of the weight; row -1 fills a tile up to eights.
    overlay_ptr, overlay_cols, overlay
        Single entries as CSR over the rows of the weight.
    """

    kind: ClassVar[str] = "tile"

    colptr: Tensor
    cols: Tensor
    rowptr: Tensor
    rows: Tensor
    overlay_ptr: Tensor
    overlay_cols: Tensor
    overlay: Tensor

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...]) -> Self:
        """Return the packed weight of a sheet: whole columns of tiles, the rest single entries."""
        order = sheet.cols.argsort()  # the weight's column order: a tile's columns are a set
        sheet = Sheet(
            sheet.weight[:, order],
            sheet.mask[:, order],
            sheet.rows,
            sheet.cols[order],
            sheet.channels,
        )
        tiles = min(_tilings(sheet, spec), key=lambda found: found[0])[1]
        parts, inside = [], torch.zeros_like(sheet.mask)
        for rows in tiles:
            cols = sheet.mask[rows].all(0).nonzero().flatten()
            if len(cols):
                inside[rows[:, None], cols] = True
                parts.append((rows, cols))
        _check_tiles(sheet, parts, spec)
        single = sheet.mask & ~inside
        allowed = spec.overlay * single.numel() + 0.5
        if int(single.sum()) > allowed:
            raise PackError(
                f"the mask is not {spec.text}: {int(single.sum())} entries lie outside whole "
                f"columns of tiles of {spec.v} rows, at most {int(allowed)} may."
            )
        parts += _rest(sheet, parts, spec.v)
        return cls(
            pattern=spec.text, shape=shape, **_tile_tensors(sheet, parts), **_csr(sheet, single)
        )

    def check(self) -> None:
        """See `PackedWeight.check`."""
        columns = math.prod(self.shape[1:])
        check_pointers("colptr", self.colptr, self.cols.numel())
        check_pointers("rowptr", self.rowptr, self.rows.numel())
        check_shape("rowptr", self.rowptr, (self.colptr.numel(),))
        if bool((self.rowptr % ROWS != 0).any()):
            raise PackError(f"tiles have multiples of {ROWS} rows.")
        check_shape("values", self.values, (int((self.colptr.diff() * self.rowptr.diff()).sum()),))
        check_ids("cols", self.cols, 0, columns)
        check_ids("rows", self.rows, -1, self.shape[0])
        check_distinct_rows(self.rows, self.shape[0])
        if int((self.rows >= 0).sum()) != self.shape[0]:
            raise PackError(
                "some rows of the weight are in no tile, not even in one without columns."
            )
        check_shape("overlay_ptr", self.overlay_ptr, (self.shape[0] + 1,))
        check_pointers("overlay_ptr", self.overlay_ptr, self.overlay.numel())
        check_shape("overlay_cols", self.overlay_cols, (self.overlay.numel(),))
        check_ids("overlay_cols", self.overlay_cols, 0, columns)
        if self.overlay.dtype != self.values.dtype:
            raise PackError(f"the overlay is {self.overlay.dtype}, the values {self.values.dtype}.")

    @property
    def operands(self) -> Gathered:
        """See `PackedWeight.operands`."""
        heights = self.rowptr.diff()
        found = Gathered(
            self.colptr,
            self.cols,
            self.rowptr,
            self.rows,
            height=int(heights.max()) if heights.numel() else ROWS,
        )
        if not self.overlay.numel():
            return found
        return found._replace(
            overlay_ptr=self.overlay_ptr, overlay_cols=self.overlay_cols, overlay=self.overlay
        )

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        return int((self.rows < 0).sum()), 0


def _check_tiles(sheet: Sheet, parts: list[tuple[Tensor, Tensor]], spec: Spec) -> None:
    kept, size = sum(len(rows) * len(cols) for rows, cols in parts), sheet.mask.numel()
    allowed = int(spec.kept * size + 1e-9)
    if kept > allowed + len(sheet.rows):
        raise PackError(
            f"the mask is not {spec.text}: tiles keep {kept} of {size} entries, at most "
            f"{allowed} may."
        )


def _tilings(sheet: Sheet, spec: Spec) -> list[tuple[int, list[Tensor]]]:
    """Return ways to cut rows into tiles, each with the single entries it leaves.

    Rows as they are stored, a tile losing rows at its end; or the rows that keep anything, joined.
    With an overlay a dropped row may hold a few single entries; which rows those are is not
    written in the mask, so thresholds are tried.
    """
    counts, ids = sheet.mask.sum(1), torch.arange(len(sheet.rows), device=sheet.rows.device)
    cuts = [[_best_height(sheet.mask, rows) for rows in torch.split(ids, spec.v)]]
    shares = (0.0, 0.02, 0.05, 0.1, 0.2) if spec.overlay else (0.0,)
    for limit in dict.fromkeys(int(share * len(sheet.cols)) for share in shares):
        survivors = (counts > limit).nonzero().flatten()
        cuts.append(list(torch.split(survivors, spec.v)) if len(survivors) else [])
    total = int(counts.sum())
    return [(total - sum(_covered(sheet.mask, rows) for rows in tiles), tiles) for tiles in cuts]


def _covered(mask: Tensor, rows: Tensor) -> int:
    return len(rows) * int(mask[rows].all(0).sum()) if len(rows) else 0


def _best_height(mask: Tensor, rows: Tensor) -> Tensor:
    """Return the first rows of a tile, as many as hold the most entries in whole columns."""
    whole = mask[rows].long().cumprod(0).sum(1) * torch.arange(1, len(rows) + 1, device=rows.device)
    return rows[: int(whole.argmax()) + 1]


def _rest(sheet: Sheet, parts: list[tuple[Tensor, Tensor]], v: int) -> list[tuple[Tensor, Tensor]]:
    """Return tiles without columns of the rows that are in none: their outputs are written, too."""
    left = torch.ones(len(sheet.rows), dtype=torch.bool, device=sheet.rows.device)
    for rows, _ in parts:
        left[rows] = False
    left &= sheet.rows >= 0
    rows = left.nonzero().flatten()
    return [(part, rows.new_empty(0)) for part in torch.split(rows, v) if len(part)]


def _tile_tensors(sheet: Sheet, parts: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    device = sheet.mask.device
    values, ids = [sheet.weight.new_empty(0)], [sheet.rows.new_empty(0)]
    for rows, cols in parts:
        padding = (0, -len(rows) % ROWS)
        block = torch.nn.functional.pad(sheet.weight[rows][:, cols].t(), padding)
        values.append(block.reshape(-1))
        ids.append(torch.nn.functional.pad(sheet.rows[rows], padding, value=-1))
    lists = [sheet.cols[cols] for _, cols in parts]
    return {
        "values": torch.cat(values),
        "colptr": _pointers([len(part) for part in lists], device),
        "cols": torch.cat([sheet.cols.new_empty(0), *lists]).int(),
        "rowptr": _pointers([len(part) for part in ids[1:]], device),
        "rows": torch.cat(ids).int(),
    }


def _csr(sheet: Sheet, single: Tensor) -> dict[str, Tensor]:
    back = sheet.rows.argsort()[int((sheet.rows < 0).sum()) :]
    single, weight = single[back], sheet.weight[back]
    counts = single.sum(1).tolist()
    return {
        "overlay_ptr": _pointers(counts, single.device),
        "overlay_cols": sheet.cols[single.nonzero()[:, 1]].int(),
        "overlay": weight[single],
    }


def _pointers(counts: list[int], device: torch.device) -> Tensor:
    sizes = torch.tensor([0, *counts], dtype=torch.int64, device=device)
    return sizes.cumsum(0)
