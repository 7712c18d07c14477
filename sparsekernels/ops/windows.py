"""Convolutions in groups: packed columns moved to where each group's channels lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sparsekernels.errors import OperandError
from sparsekernels.formats.matrix import LIMIT
from sparsekernels.ops.operands import Gathered, Operands, Picked


def in_groups(operands: Operands, values: Tensor, shape: Sequence[int], groups: int) -> Operands:
    """Return operands over all input channels of a convolution in groups.

    Column tap * c + channel of group g becomes tap * c * groups + g * c + channel.

    Raises
    ------
    OperandError
        Where rows that share columns belong to different groups.
    """
    if groups == 1:
        return operands
    if groups < 1 or shape[0] % groups:
        raise OperandError(f"{shape[0]} output channels are no {groups} groups.")
    columns = math.prod(shape[1:]) * groups
    if columns > LIMIT:
        raise OperandError(
            f"{groups} groups of {math.prod(shape[1:])} columns are more than 32 bits number."
        )
    part = shape[0] // groups
    if isinstance(operands, Gathered):
        return _gathered(operands, shape[1], part, groups)
    return _picked(operands, values, shape, part, groups)


def _moved(cols: Tensor, group: Tensor, channels: int, groups: int) -> Tensor:
    tap = cols.long() // channels
    return (tap * channels * groups + group * channels + cols % channels).int()


def _gathered(w: Gathered, channels: int, part: int, groups: int) -> Gathered:
    owner = _owners(w.rows, w.rowptr, part)
    of_col = owner.repeat_interleave(w.colptr.diff())
    cols = _moved(w.cols, of_col, channels, groups)
    if w.overlay_ptr is None or w.overlay_cols is None:
        return w._replace(cols=cols)
    row = torch.arange(len(w.overlay_ptr) - 1, device=cols.device)
    of_single = (row // part).repeat_interleave(w.overlay_ptr.diff())
    return w._replace(cols=cols, overlay_cols=_moved(w.overlay_cols, of_single, channels, groups))


def _owners(rows: Tensor, pointers: Tensor, part: int) -> Tensor:
    """Return the convolution group that each group of rows belongs to."""
    group = torch.where(rows < 0, -1, rows.long() // part)
    number = torch.arange(len(pointers) - 1, device=rows.device).repeat_interleave(pointers.diff())
    highest = torch.full((len(pointers) - 1,), -1, device=rows.device)
    highest = highest.scatter_reduce(0, number, group, "amax")
    torn = (group >= 0) & (group != highest[number])
    if bool(torn.any()):
        raise OperandError(
            f"{int(torn.sum())} rows share columns with rows of another group of the convolution; "
            "pack with a row order that keeps each group's rows together."
        )
    return highest.clamp(min=0)


def _picked(w: Picked, values: Tensor, shape: Sequence[int], part: int, groups: int) -> Picked:
    device, rows = values.device, len(values)
    length = values.shape[1] // w.n * w.m
    if w.rows is None:
        ids, pointers = (
            torch.arange(rows, device=device),
            torch.arange(groups + 1, device=device) * part,
        )
        lists = torch.arange(math.prod(shape[1:]), device=device) if w.cols is None else w.cols
        lists, share = lists.reshape(1, length).expand(groups, length), part
    else:
        assert w.cols is not None
        ids, share = w.rows, w.share
        pointers = torch.arange(rows // share + 1, device=device) * share
        lists = w.cols.reshape(-1, length)
    owner = _owners(ids, pointers, part)
    return w._replace(cols=_moved(lists, owner[:, None], shape[1], groups), share=share)
