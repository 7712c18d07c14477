"""Plain torch: what every kernel has to compute, on any device and in any float type."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsekernels.formats.bits import unpack_bits
from sparsekernels.ops.operands import Gathered, Operands, Picked, Scaled


def places_of(values_shape: Sequence[int], operands: Operands, out: int) -> tuple[Tensor, Tensor]:
    """Return row and column of every stored value, in storage order; row `out`: nowhere."""
    if isinstance(operands, Gathered):
        return _gathered_places(operands, out)
    return _picked_places(operands, int(values_shape[0]), int(values_shape[1]), out)


def _gathered_places(w: Gathered, out: int) -> tuple[Tensor, Tensor]:
    width, height = w.colptr.diff(), w.rowptr.diff()
    counts = width * height
    group = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    first = counts.cumsum(0) - counts
    within = torch.arange(len(group), device=group.device) - first[group]
    high = height[group].clamp(min=1)
    row = w.rows.long()[w.rowptr[:-1][group] + within % high]
    col = w.cols.long()[w.colptr[:-1][group] + within // high]
    return torch.where(row < 0, out, row), col


def _picked_places(w: Picked, rows: int, kept: int, out: int) -> tuple[Tensor, Tensor]:
    within = unpack_bits(w.meta, w.bits, kept)
    group = torch.arange(kept, device=within.device) // w.n * w.m
    place = group + within.clamp(max=w.m - 1)
    row = torch.arange(rows, device=within.device)
    if w.cols is None:
        col = place
    else:
        lists = w.cols.long().reshape(-1, kept // w.n * w.m)
        col = lists[row // w.share].gather(1, place)
    if w.rows is not None:
        row = w.rows.long()
    row = torch.where(row < 0, out, row)
    return row[:, None].expand(rows, kept).reshape(-1), col.reshape(-1)


def dense_of(values: Tensor, operands: Operands, out: int, columns: int) -> Tensor:
    """Return the dense matrix (out, columns), the overlay on top."""
    row, col = places_of(values.shape, operands, out)
    # Adding makes padded places, which repeat a column with zeros, harmless.
    dense = values.new_zeros(out + 1, columns).index_put((row, col), values.reshape(-1), True)[:out]
    if isinstance(operands, Gathered) and operands.overlay is not None:
        row, col = overlay_places(operands)
        dense = dense.index_put((row, col), operands.overlay, True)
    return dense


def picked_of(dense: Tensor, values_shape: Sequence[int], operands: Operands) -> Tensor:
    """Return a dense matrix's entries where the values stand: the adjoint of `dense_of`."""
    row, col = places_of(values_shape, operands, dense.shape[0])
    padded = torch.nn.functional.pad(dense, (0, 0, 0, 1))
    return padded[row, col].reshape(tuple(values_shape))


def overlay_places(operands: Gathered) -> tuple[Tensor, Tensor]:
    """Return row and column of the single entries."""
    assert operands.overlay_ptr is not None
    assert operands.overlay_cols is not None
    counts = operands.overlay_ptr.diff()
    row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    return row, operands.overlay_cols.long()


def linear(x: Tensor, values: Tensor, operands: Operands, out: int, bias: Tensor | None) -> Tensor:
    """Return x W' + bias over the last axis of x."""
    return torch.nn.functional.linear(x, dense_of(values, operands, out, x.shape[-1]), bias)


def addmm(
    x: Tensor, values: Tensor, operands: Operands, out: int, bias: Tensor | None, scaled: Scaled
) -> Tensor:
    """Return beta * c + alpha * x W' + bias."""
    return combined(linear(x, values, operands, out, None), bias, scaled)


def combined(y: Tensor, bias: Tensor | None, scaled: Scaled) -> Tensor:
    """Return beta * c + alpha * y + bias; c may hold anything where beta is 0."""
    if scaled.alpha != 1:
        y = y * scaled.alpha
    if scaled.beta != 0:
        y = torch.add(y, scaled.c, alpha=scaled.beta)
    return y if bias is None else y + bias.to(y.dtype)


def conv2d(
    x: Tensor,
    values: Tensor,
    operands: Operands,
    out: int,
    window: Sequence[int],
    bias: Tensor | None,
) -> Tensor:
    """Return the convolution; `window` is kernel, stride, padding, dilation, two numbers each."""
    weight = conv_weight(
        dense_of(values, operands, out, x.shape[1] * window[0] * window[1]), window
    )
    stride, padding, dilation = list(window[2:4]), list(window[4:6]), list(window[6:8])
    return torch.nn.functional.conv2d(x, weight, bias, stride, padding, dilation)


def conv_weight(matrix: Tensor, window: Sequence[int]) -> Tensor:
    """Return (out, in, kh, kw) of a matrix whose columns are tap after tap, channels innermost."""
    return matrix.reshape(matrix.shape[0], window[0], window[1], -1).permute(0, 3, 1, 2)


def conv_matrix(weight: Tensor) -> Tensor:
    """Return the matrix of a weight: the inverse of `conv_weight`."""
    return weight.permute(0, 2, 3, 1).reshape(weight.shape[0], -1)
