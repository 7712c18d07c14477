"""Products of activations with packed weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import sparsekernels.ops.autograd  # noqa: F401  (registers the operators)
from sparsekernels.errors import OperandError
from sparsekernels.formats.base import PackedWeight
from sparsekernels.ops.dispatch import check_activations
from sparsekernels.ops.operands import Gathered, Operands
from sparsekernels.ops.windows import in_groups

OPS = torch.ops.sparsekernels


def linear(x: Tensor, weight: PackedWeight, bias: Tensor | None = None) -> Tensor:
    """Return x W' + bias, as `torch.nn.functional.linear` of the unpacked weight.

    Parameters
    ----------
    x
        (..., in), of the type and on the device of the packed values; gaps are closed.
    weight
        A packed matrix.
    bias
        (out,) or None.

    Raises
    ------
    OperandError
        When types, devices or shapes do not fit, naming both sides.

    Examples
    --------
    >>> import torch
    >>> import sparsekernels as sk
    >>> weight = torch.tensor([[5.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, -3.0]])
    >>> sk.linear(torch.ones(1, 4), sk.pack(weight, None, "2:4"))
    tensor([[ 7., -2.]])
    """
    if len(weight.shape) != 2:
        raise OperandError(f"a weight of shape {weight.shape} is a convolution's; use conv2d.")
    return linear_of(x, weight.values, weight.operands, weight.shape, bias)


def linear_of(
    x: Tensor, values: Tensor, operands: Operands, shape: Sequence[int], bias: Tensor | None
) -> Tensor:
    """Return the product with values and operands apart, as a module holds them."""
    check_activations(x, values)
    out, columns = shape
    check_columns(x, columns)
    if isinstance(operands, Gathered):
        return _tensor(OPS.gathered_linear(x, values, *_gathered(operands), out, bias))
    return _tensor(OPS.picked_linear(x, values, *_picked(operands), out, bias))


def addmm(
    c: Tensor,
    x: Tensor,
    weight: PackedWeight,
    bias: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Tensor:
    """Return beta * c + alpha * x W' + bias, with gradients for all of them.

    Parameters
    ----------
    c
        (..., out), of the type and on the device of x; not read where beta is 0, as in
        `torch.addmm`.
    x, weight, bias
        As for `linear`.
    alpha, beta
        Numbers. The CUDA kernels apply them to 32-bit sums; the CPU afterwards.

    Raises
    ------
    OperandError
        When types, devices or shapes do not fit, naming both sides.

    Examples
    --------
    >>> import torch
    >>> import sparsekernels as sk
    >>> weight = torch.tensor([[5.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, -3.0]])
    >>> sk.addmm(torch.ones(1, 2), torch.ones(1, 4), sk.pack(weight, None, "2:4"), beta=10.0)
    tensor([[17.,  8.]])
    """
    if len(weight.shape) != 2:
        raise OperandError(f"a weight of shape {weight.shape} is a convolution's; use conv2d.")
    check_activations(x, weight.values)
    out, columns = weight.shape
    check_columns(x, columns)
    if c.shape != (*x.shape[:-1], out) or c.dtype != x.dtype or c.device != x.device:
        raise OperandError(
            f"c is {c.dtype} {tuple(c.shape)} on {c.device}; the product is {x.dtype} "
            f"{(*x.shape[:-1], out)} on {x.device}."
        )
    tail = (out, bias, c, float(alpha), float(beta))
    operands = weight.operands
    if isinstance(operands, Gathered):
        return _tensor(OPS.gathered_addmm(x, weight.values, *_gathered(operands), *tail))
    return _tensor(OPS.picked_addmm(x, weight.values, *_picked(operands), *tail))


def check_columns(x: Tensor, columns: int) -> None:
    """Raise OperandError unless the last axis of x has that many columns."""
    if x.shape[-1:] != (columns,):
        raise OperandError(
            f"activations of shape {tuple(x.shape)} do not end in the {columns} inputs there are."
        )


def conv2d(
    x: Tensor,
    weight: PackedWeight,
    bias: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution, as `torch.nn.functional.conv2d` of the unpacked weight.

    Parameters
    ----------
    x
        (batch, channels, height, width).
    weight
        A packed weight of shape (out, channels / groups, kh, kw).
    bias
        (out,) or None.
    stride, padding, dilation
        One number, or one for each axis.
    groups
        Output channels in so many equal parts, each reading its part of the input. Rows that
        share columns have to lie in one part.

    Examples
    --------
    >>> import torch
    >>> import sparsekernels as sk
    >>> weight = torch.tensor([[5.0, 0.0, 2.0, 0.0]]).reshape(1, 4, 1, 1)
    >>> sk.conv2d(torch.ones(1, 4, 1, 2), sk.pack(weight, None, "2:4"))
    tensor([[[[7., 7.]]]])
    """
    if len(weight.shape) != 4:
        raise OperandError(f"a weight of shape {weight.shape} is a matrix; use linear.")
    window = window_of(weight.shape, stride, padding, dilation)
    operands = in_groups(weight.operands, weight.values, weight.shape, groups)
    channels = weight.shape[1] * groups
    return conv2d_of(x, weight.values, operands, (weight.shape[0], channels), bias, window)


def window_of(
    shape: Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> list[int]:
    """Return kernel, stride, padding and dilation, two numbers each."""
    return [
        *shape[2:],
        *_pair("stride", stride),
        *_pair("padding", padding),
        *_pair("dilation", dilation),
    ]


def _pair(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    pair = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(pair) != 2 or not all(isinstance(part, int) for part in pair):
        raise OperandError(f"{name} is one whole number or two, got {value!r}.")
    return pair[0], pair[1]


def conv2d_of(
    x: Tensor,
    values: Tensor,
    operands: Operands,
    shape: Sequence[int],
    bias: Tensor | None,
    window: list[int],
) -> Tensor:
    """Return the convolution with values and operands apart; `shape` is (out, input channels)."""
    check_activations(x, values)
    out, channels = shape
    if x.dim() != 4 or x.shape[1] != channels:
        raise OperandError(
            f"activations of shape {tuple(x.shape)} are not (batch, {channels} channels, height, "
            "width)."
        )
    for axis in (0, 1):
        kernel, padding, dilation = window[axis], window[4 + axis], window[6 + axis]
        if x.shape[2 + axis] + 2 * padding < dilation * (kernel - 1) + 1:
            raise OperandError(
                f"the kernel ({kernel}, dilation {dilation}) is larger than the padded input "
                f"({x.shape[2 + axis] + 2 * padding}) on axis {2 + axis}."
            )
    if isinstance(operands, Gathered):
        return _tensor(OPS.gathered_conv2d(x, values, *_gathered(operands), out, bias, window))
    return _tensor(OPS.picked_conv2d(x, values, *_picked(operands), out, bias, window))


def _tensor(found: Tensor) -> Tensor:
    return found


def _gathered(w: Gathered) -> tuple[object, ...]:
    pointers = (w.colptr, w.cols, w.rowptr, w.rows, w.overlay_ptr, w.overlay_cols)
    return w.overlay, *pointers, w.height


def _picked(w: Operands) -> tuple[object, ...]:
    assert not isinstance(w, Gathered)
    return w.meta, w.cols, w.rows, w.n, w.m, w.bits, w.share, w.words
