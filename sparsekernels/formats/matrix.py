"""A weight as the matrix that is packed: rows and columns in their orders, every tap apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsekernels.errors import PackError

LIMIT = 2**31 - 1  # indices are stored in 32 bits
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A weight, its mask and where its rows and columns came from.

    Parameters
    ----------
    weight, mask
        (rows, columns) in storage order.
    rows, cols
        int64: position to row of the weight, position to column of `as_matrix`; -1 is padding.
    channels
        Columns of one tap.
    """

    weight: Tensor
    mask: Tensor
    rows: Tensor
    cols: Tensor
    channels: int

    def padded(self, rows: int, cols: int) -> Sheet:
        """Return the sheet with zero rows and columns up to multiples; columns tap by tap."""
        add_rows, add_cols = -len(self.rows) % rows, -self.channels % cols
        if not add_rows and not add_cols:
            return self
        taps = len(self.cols) // max(self.channels, 1)

        def grown(matrix: Tensor) -> Tensor:
            apart = matrix.reshape(len(self.rows), taps, self.channels)
            wide = torch.nn.functional.pad(apart, (0, add_cols, 0, 0, 0, add_rows))
            return wide.reshape(len(self.rows) + add_rows, -1)

        ids = self.cols.reshape(taps, self.channels)
        return Sheet(
            grown(self.weight),
            grown(self.mask.to(torch.uint8)).bool(),
            torch.nn.functional.pad(self.rows, (0, add_rows), value=-1),
            torch.nn.functional.pad(ids, (0, add_cols), value=-1).reshape(-1),
            self.channels + add_cols,
        )


def check_share(used: Tensor, share: float, unit: str, text: str) -> None:
    """Raise PackError where a mask uses more vectors or blocks than its pattern's share.

    Parameters
    ----------
    used
        (groups, units): which units have a kept entry.
    share
        Of the units; patterns round their budget in one way or another, so one more for each
        group is let pass.
    """
    allowed = math.floor(share * used.numel() + 1e-9)
    count = int(used.sum())
    if count > allowed + len(used):
        raise PackError(
            f"the mask is not {text}: {count} of {used.numel()} {unit} are in use, at most "
            f"{allowed} may be; pass the orders under which it is."
        )


def as_matrix(weight: Tensor) -> Tensor:
    """Return (out, taps x in) of a weight (out, in, *k), tap after tap, channels innermost."""
    return weight.movedim(1, -1).reshape(weight.shape[0], -1)


def from_matrix(matrix: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the weight (out, in, *k) of a matrix made by `as_matrix`."""
    return matrix.reshape(shape[0], *shape[2:], shape[1]).movedim(-1, 1).contiguous()


def sheet_of(weight: Any, mask: Any, rows: Any, cols: Any) -> Sheet:
    """Return the sheet of a weight; everything is checked here.

    Raises
    ------
    PackError
        When shapes, types or orders do not fit, naming the one that does not.
    """
    weight = _weight(weight)
    mask = weight != 0 if mask is None else torch.as_tensor(mask, device=weight.device)
    if mask.shape != weight.shape or mask.dtype != torch.bool:
        raise PackError(
            f"the mask is {mask.dtype} of shape {tuple(mask.shape)}; a boolean mask of the "
            f"weight's shape {tuple(weight.shape)} is needed."
        )
    matrix, kept = as_matrix(weight), as_matrix(mask)
    if max(matrix.shape) > LIMIT:
        raise PackError(f"a matrix of {tuple(matrix.shape)} needs indices of more than 32 bits.")
    row_ids = _order("rows", rows, len(matrix), weight.device)
    col_ids, channels = _columns(cols, weight, weight.device)
    weight = torch.where(kept, matrix, torch.zeros_like(matrix))  # a masked NaN is no value
    # row and column -1, beyond the last, are the zeros that a search padded with
    grown = torch.nn.functional.pad(weight, (0, 1, 0, 1))
    grown_mask = torch.nn.functional.pad(kept.to(torch.uint8), (0, 1, 0, 1)).bool()
    return Sheet(
        grown[row_ids][:, col_ids], grown_mask[row_ids][:, col_ids], row_ids, col_ids, channels
    )


def _weight(weight: Any) -> Tensor:
    weight = torch.as_tensor(weight).detach()
    assert isinstance(weight, Tensor)
    if weight.dim() < 2:
        raise PackError(f"a weight has rows and columns; got shape {tuple(weight.shape)}.")
    if weight.dtype not in FLOATS:
        raise PackError(
            f"a weight of {weight.dtype} cannot be packed; convert it to one of "
            f"{', '.join(str(kind).removeprefix('torch.') for kind in FLOATS)}."
        )
    return weight


def _columns(cols: Any, weight: Tensor, device: torch.device) -> tuple[Tensor, int]:
    """Return the order of all columns of the matrix, from one of channels or of all of them.

    The second number is how many columns count as one tap: all where the order mixes taps.
    """
    channels, total = weight.shape[1], weight[0].numel() if weight.shape[0] else 0
    if cols is not None and channels != total and len(cols) == total:
        return _order("cols", cols, total, device), total
    order = _order("cols", cols, channels, device)
    taps = torch.arange(total // max(channels, 1), device=device)[:, None]
    placed = torch.where(order < 0, -1, taps * channels + order)
    return placed.reshape(-1), len(order)


def _order(name: str, order: Any, count: int, device: torch.device) -> Tensor:
    """Return an order of `count` things, -1 for each number beyond them (padding)."""
    if order is None:
        return torch.arange(count, device=device)
    found = torch.as_tensor(order, device=device)
    if found.dim() != 1 or found.is_floating_point() or found.dtype == torch.bool:
        raise PackError(f"{name} is no order: {count} integers are needed.")
    found = found.long()
    every = torch.arange(len(found), device=device)
    if len(found) < count or not torch.equal(found.sort().values, every):
        raise PackError(
            f"{name} is no order of {count}: each of 0..{count - 1} has to stand in it once, "
            f"got {len(found)} numbers."
        )
    return torch.where(found < count, found, -1)
