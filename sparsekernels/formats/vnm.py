"""V:N:M and HiNM: V rows share live columns, and each row keeps n of every m of those."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from sparsekernels.errors import PackError
from sparsekernels.formats.base import PackedWeight, check_distinct_rows, check_ids, check_shape
from sparsekernels.formats.bits import bits_for
from sparsekernels.formats.matrix import Sheet
from sparsekernels.formats.nm import check_meta, picked_parts
from sparsekernels.ops.operands import Picked
from sparsekernels.spec import Spec

LIVE = 4  # columns of a V x M block that stay, for the hardware's 2:4


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class VNMWeight(PackedWeight):
    """V:2:M: values and 2-bit metadata over 4 live columns of each V x M block.

    Parameters
    ----------
    metadata
        uint8 (stored rows, bytes).
    column_loc
        uint8 (groups, blocks, 4): the live columns, rising places within each block of m.
    row_ids, col_ids
        int32: the weight's row and column at each stored one, -1 padding.
    v, m
        Rows of a group, columns of a block.
    """

    kind: ClassVar[str] = "vnm"

    metadata: Tensor
    column_loc: Tensor
    row_ids: Tensor
    col_ids: Tensor
    v: int
    m: int

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...]) -> Self:
        """Return the packed weight of a sheet."""
        sheet = sheet.padded(spec.v, spec.m)
        groups, blocks = len(sheet.rows) // spec.v, len(sheet.cols) // spec.m
        live = sheet.mask.reshape(groups, spec.v, blocks, spec.m).any(1)
        over = int((live.sum(-1) > LIVE).sum())
        if over:
            raise PackError(
                f"the mask is not {spec.text}: {over} blocks of {spec.v} rows and {spec.m} columns "
                f"use more than {LIVE} columns."
            )
        # live ones first, filled up with the block's last columns
        key = live.long() * spec.m + torch.arange(spec.m, device=live.device)
        loc = key.topk(LIVE, dim=-1).indices.sort(-1).values
        stored = loc + torch.arange(blocks, device=live.device)[:, None] * spec.m
        weight, mask = over_lists(sheet, stored.reshape(groups, -1), spec.v)
        check_kept(mask, spec.n, LIVE, spec.text)
        values, meta = picked_parts(weight, mask, spec.n, LIVE)
        return cls(
            pattern=spec.text,
            shape=shape,
            values=values,
            metadata=meta,
            column_loc=loc.to(torch.uint8),
            row_ids=sheet.rows.int(),
            col_ids=sheet.cols.int(),
            v=spec.v,
            m=spec.m,
        )

    def check(self) -> None:
        """See `PackedWeight.check`."""
        rows, columns = self.row_ids.numel(), self.col_ids.numel()
        if self.v < 1 or not LIVE <= self.m <= 256 or rows % self.v or columns % self.m:
            raise PackError(f"{rows} x {columns} are no blocks of {self.v} x {self.m}.")
        blocks = columns // self.m
        check_shape("values", self.values, (rows, 2 * blocks))
        check_meta(self.metadata, rows, 2 * blocks, 2, LIVE)
        check_shape("column_loc", self.column_loc, (rows // self.v, blocks, LIVE))
        check_ids("column_loc", self.column_loc, 0, self.m)
        check_ids("row_ids", self.row_ids, -1, self.shape[0])
        check_ids("col_ids", self.col_ids, -1, math.prod(self.shape[1:]))
        check_distinct_rows(self.row_ids, self.shape[0])

    @property
    def operands(self) -> Picked:
        """See `PackedWeight.operands`."""
        groups, blocks, _ = self.column_loc.shape
        base = torch.arange(blocks, device=self.values.device)[:, None] * self.m
        stored = (self.column_loc.long() + base).reshape(groups, -1)
        cols = self.col_ids[stored].clamp(min=0)
        return Picked(self.metadata, cols, self.row_ids, 2, LIVE, 2, self.v)

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        rows, columns = self.shape[0], math.prod(self.shape[1:])
        return self.row_ids.numel() - rows, self.col_ids.numel() - columns


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HiNMWeight(PackedWeight):
    """Per tile of V rows a list of kept columns in the tile's own order, and N:M along it.

    Parameters
    ----------
    metadata
        uint8 (stored rows, bytes).
    vector_index
        int32 (tiles, kept columns): the weight's column at each place of the tile's own order.
    row_ids
        int32: the weight's row at each stored one, -1 padding.
    v, n, m
        Rows of a tile; n kept of every m.
    """

    kind: ClassVar[str] = "hinm"

    metadata: Tensor
    vector_index: Tensor
    row_ids: Tensor
    v: int
    n: int
    m: int

    @classmethod
    def pack(cls, sheet: Sheet, spec: Spec, shape: tuple[int, ...], tiles: Any = None) -> Self:
        """Return the packed weight of a sheet.

        Parameters
        ----------
        tiles
            The tiles' own column orders, places in storage order: of all columns or of those that
            stay; (tiles, places), for a convolution (taps x tiles, places), tap after tap. Without
            it the survivors follow the sheet's order.
        """
        sheet = sheet.padded(spec.v, 1)
        groups, columns = len(sheet.rows) // spec.v, len(sheet.cols)
        live = sheet.mask.reshape(groups, spec.v, columns).any(1)
        allowed = max(1, round(spec.kept * columns)) + spec.m * columns // max(sheet.channels, 1)
        if _largest(live.sum(1)) > allowed:
            raise PackError(
                f"the mask is not {spec.text}: a tile of {spec.v} rows uses "
                f"{_largest(live.sum(1))} of {columns} columns."
            )
        for lists in _lists(sheet, live, tiles, spec):
            weight, mask = _along(sheet, lists, spec.v)
            if not _too_many(mask, spec.n, spec.m):
                break
        check_kept(mask, spec.n, spec.m, spec.text)
        values, meta = picked_parts(weight, mask, spec.n, spec.m)
        return cls(
            pattern=spec.text,
            shape=shape,
            values=values,
            metadata=meta,
            vector_index=sheet.cols[lists.clamp(min=0)].int(),
            row_ids=sheet.rows.int(),
            v=spec.v,
            n=spec.n,
            m=spec.m,
        )

    def check(self) -> None:
        """See `PackedWeight.check`."""
        if self.vector_index.dim() != 2 or not 1 <= self.n <= self.m <= 32 or self.v < 1:
            raise PackError("vector_index is (tiles, kept columns).")
        tiles, length = self.vector_index.shape
        if length % self.m:
            raise PackError(f"{length} kept columns are no groups of {self.m}.")
        kept = length // self.m * self.n
        check_shape("row_ids", self.row_ids, (tiles * self.v,))
        check_shape("values", self.values, (tiles * self.v, kept))
        check_meta(self.metadata, tiles * self.v, kept, self.n, self.m)
        check_ids("vector_index", self.vector_index, 0, math.prod(self.shape[1:]))
        check_ids("row_ids", self.row_ids, -1, self.shape[0])
        check_distinct_rows(self.row_ids, self.shape[0])

    @property
    def operands(self) -> Picked:
        """See `PackedWeight.operands`."""
        return Picked(
            self.metadata, self.vector_index, self.row_ids, self.n, self.m, bits_for(self.m), self.v
        )

    @property
    def padded(self) -> tuple[int, int]:
        """See `PackedWeight.padded`."""
        return self.row_ids.numel() - self.shape[0], 0


def _largest(counts: Tensor) -> int:
    return int(counts.max()) if counts.numel() else 0


def _lists(sheet: Sheet, live: Tensor, tiles: Any, spec: Spec) -> list[Tensor]:
    """Return lists (tiles, length) of the columns each tile uses, one or two ways; -1 fills up.

    Taps are apart. A tile's own order is taken as it is, without groups that are not used. Else
    survivors are joined, or stay in the groups where they stand.
    """
    groups, columns = live.shape
    taps = columns // max(sheet.channels, 1)
    apart = live.reshape(groups * taps, sheet.channels)
    if tiles is None:
        plain = torch.arange(sheet.channels, device=live.device).expand(len(apart), sheet.channels)
        ways = [(plain, False), (plain, True)]
    else:
        given = _own_orders(tiles, groups * taps, sheet.channels, spec)
        order = given.reshape(taps, groups, given.shape[1]).transpose(0, 1)
        ways = [(order.reshape(groups * taps, given.shape[1]), True)]
    first = torch.arange(taps, device=live.device)[:, None] * sheet.channels
    found = []
    for order, whole in ways:
        kept = _kept_places(order, apart, whole, spec).reshape(groups, taps, -1)
        found.append(torch.where(kept < 0, -1, kept + first).reshape(groups, -1))
    return found


def _own_orders(tiles: Any, count: int, channels: int, spec: Spec) -> Tensor:
    given = torch.as_tensor(tiles).long()
    if given.dim() != 2 or len(given) != count:
        raise PackError(f"tiles are {count} orders of columns, one for each {spec.v} rows.")
    if given.numel() and not (int(given.min()) >= 0 and int(given.max()) < channels):
        raise PackError(f"tiles name columns outside 0..{channels - 1}.")
    if bool((given.sort(1).values.diff(dim=1) <= 0).any()):
        raise PackError("a tile's own order names a column twice.")
    return given


def _kept_places(order: Tensor, live: Tensor, whole: bool, spec: Spec) -> Tensor:
    """Return the used places of each order, or the `whole` groups that are used; -1 fills up."""
    order = order.to(live.device)
    used = live.gather(1, order)
    if bool((used.sum(1) != live.sum(1)).any()):
        raise PackError(f"the mask is not {spec.text}: a tile uses columns outside its own order.")
    padding = (0, -order.shape[1] % spec.m)
    order = torch.nn.functional.pad(order, padding, value=-1)
    used = torch.nn.functional.pad(used.to(torch.uint8), padding).bool()
    if whole:
        used = used.reshape(len(order), -1, spec.m).any(2).repeat_interleave(spec.m, 1)
    most = _largest(used.sum(1))
    most += -most % spec.m
    rank = torch.where(used, 0, 1).argsort(dim=1, stable=True)[:, :most]
    return torch.where(used.gather(1, rank), order.gather(1, rank), -1)


def _along(sheet: Sheet, lists: Tensor, v: int) -> tuple[Tensor, Tensor]:
    """Return weight and mask along each tile's list; nothing where it is filled up."""
    weight, mask = over_lists(sheet, lists.clamp(min=0), v)
    real = (lists >= 0).repeat_interleave(v, 0)
    return torch.where(real, weight, torch.zeros_like(weight)), mask & real


def _too_many(mask: Tensor, n: int, m: int) -> int:
    return int((mask.reshape(len(mask), -1, m).sum(-1) > n).sum())


def over_lists(sheet: Sheet, lists: Tensor, v: int) -> tuple[Tensor, Tensor]:
    """Return weight and mask (rows, length) over each group's list of places."""
    places = lists.repeat_interleave(v, 0)
    return sheet.weight.gather(1, places), sheet.mask.gather(1, places)


def check_kept(mask: Tensor, n: int, m: int, text: str) -> None:
    """Raise PackError where a row keeps more than n of m live columns."""
    over = _too_many(mask, n, m)
    if over:
        raise PackError(
            f"the mask is not {text}: {over} groups keep more than {n} of {m} live columns; pass "
            "the orders it has, and a tile's own ones as tiles=."
        )
