"""The operators `torch.ops.sparsekernels.*`: schemas, fakes, gradients.

Each family of formats has a linear operator, one that adds to a matrix, and a convolution. Besides
them there are `dense`, the matrix that values stand for, and `entries`, its adjoint; gradients are
made of these two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sparsekernels.ops import dispatch, reference
from sparsekernels.ops.operands import Gathered, Picked, Scaled

NAMESPACE = "sparsekernels"
_GATHERED = (
    "Tensor values, Tensor? overlay, Tensor colptr, Tensor cols, Tensor rowptr, Tensor rows, "
    "Tensor? overlay_ptr, Tensor? overlay_cols, int height"
)
_PICKED = (
    "Tensor values, Tensor meta, Tensor? cols, Tensor? rows, int n, int m, int bits, int share, "
    "Tensor? words"
)
_SCALED = "Tensor c, float alpha, float beta"
SCHEMAS = {
    "gathered_linear": f"(Tensor x, {_GATHERED}, int out, Tensor? bias) -> Tensor",
    "gathered_addmm": f"(Tensor x, {_GATHERED}, int out, Tensor? bias, {_SCALED}) -> Tensor",
    "gathered_conv2d": f"(Tensor x, {_GATHERED}, int out, Tensor? bias, int[] window) -> Tensor",
    "gathered_dense": f"({_GATHERED}, SymInt out, SymInt columns) -> Tensor",
    "gathered_entries": f"(Tensor dense, {_GATHERED}) -> (Tensor, Tensor)",
    "picked_linear": f"(Tensor x, {_PICKED}, int out, Tensor? bias) -> Tensor",
    "picked_addmm": f"(Tensor x, {_PICKED}, int out, Tensor? bias, {_SCALED}) -> Tensor",
    "picked_conv2d": f"(Tensor x, {_PICKED}, int out, Tensor? bias, int[] window) -> Tensor",
    "picked_dense": f"({_PICKED}, SymInt out, SymInt columns) -> Tensor",
    "picked_entries": f"(Tensor dense, {_PICKED}) -> Tensor",
}
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]
for _name, _schema in SCHEMAS.items():
    _LIBRARY.define(_name + _schema)  # type: ignore[no-untyped-call]


def gathered(overlay: Tensor | None, *rest: Any) -> Gathered:
    """Return the operands among an operator's arguments."""
    colptr, cols, rowptr, rows, overlay_ptr, overlay_cols, height = rest
    return Gathered(colptr, cols, rowptr, rows, overlay_ptr, overlay_cols, overlay, height)


# ---- what runs


def _gathered_linear(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias = rest
    return dispatch.linear(x, values, gathered(*parts), out, bias)


def _gathered_addmm(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias, c, alpha, beta = rest
    return dispatch.addmm(x, values, gathered(*parts), out, bias, Scaled(c, alpha, beta))


def _gathered_conv2d(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias, window = rest
    return dispatch.conv2d(x, values, gathered(*parts), out, window, bias)


def _gathered_dense(values: Tensor, *rest: Any) -> Tensor:
    *parts, out, columns = rest
    return reference.dense_of(values, gathered(*parts), out, columns)


def _gathered_entries(dense: Tensor, values: Tensor, *parts: Any) -> tuple[Tensor, Tensor]:
    operands = gathered(*parts)
    found = reference.picked_of(dense, values.shape, operands)
    if operands.overlay is None:
        return found, dense.new_empty(0)
    row, col = reference.overlay_places(operands)
    return found, dense[row, col]


def _picked_linear(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias = rest
    return dispatch.linear(x, values, Picked(*parts), out, bias)


def _picked_addmm(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias, c, alpha, beta = rest
    return dispatch.addmm(x, values, Picked(*parts), out, bias, Scaled(c, alpha, beta))


def _picked_conv2d(x: Tensor, values: Tensor, *rest: Any) -> Tensor:
    *parts, out, bias, window = rest
    return dispatch.conv2d(x, values, Picked(*parts), out, window, bias)


def _picked_dense(values: Tensor, *rest: Any) -> Tensor:
    *parts, out, columns = rest
    return reference.dense_of(values, Picked(*parts), out, columns)


def _picked_entries(dense: Tensor, values: Tensor, *parts: Any) -> Tensor:
    return reference.picked_of(dense, values.shape, Picked(*parts))


_RUNS = {
    "gathered_linear": _gathered_linear,
    "gathered_addmm": _gathered_addmm,
    "gathered_conv2d": _gathered_conv2d,
    "gathered_dense": _gathered_dense,
    "gathered_entries": _gathered_entries,
    "picked_linear": _picked_linear,
    "picked_addmm": _picked_addmm,
    "picked_conv2d": _picked_conv2d,
    "picked_dense": _picked_dense,
    "picked_entries": _picked_entries,
}
for _name, _run in _RUNS.items():
    for _key in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _run, _key)  # type: ignore[no-untyped-call]


# ---- shapes alone


def conv_size(size: int, window: Sequence[int], axis: int) -> int:
    """Return the output's length along an axis of a convolution."""
    kernel, stride, padding, dilation = (window[2 * part + axis] for part in range(4))
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _fake_linear(x: Tensor, *rest: Any) -> Tensor:
    return x.new_empty((*x.shape[:-1], rest[-2]))


def _fake_addmm(x: Tensor, *rest: Any) -> Tensor:
    return x.new_empty((*x.shape[:-1], rest[-5]))


def _fake_conv2d(x: Tensor, *rest: Any) -> Tensor:
    out, window = rest[-3], rest[-1]
    sizes = [conv_size(x.shape[2 + axis], window, axis) for axis in (0, 1)]
    return x.new_empty((x.shape[0], out, *sizes))


def _fake_dense(values: Tensor, *rest: Any) -> Tensor:
    return values.new_empty(rest[-2:])


def _fake_gathered_entries(dense: Tensor, values: Tensor, *parts: Any) -> tuple[Tensor, Tensor]:
    overlay = parts[0]
    return dense.new_empty(values.shape), dense.new_empty(0 if overlay is None else overlay.shape)


def _fake_picked_entries(dense: Tensor, values: Tensor, *parts: Any) -> Tensor:
    return dense.new_empty(values.shape)


_FAKES = {
    "linear": _fake_linear,
    "addmm": _fake_addmm,
    "conv2d": _fake_conv2d,
    "dense": _fake_dense,
}
for _family in ("gathered", "picked"):
    for _kind, _fake in _FAKES.items():
        torch.library.register_fake(f"{NAMESPACE}::{_family}_{_kind}", _fake, lib=_LIBRARY)
torch.library.register_fake(f"{NAMESPACE}::gathered_entries", _fake_gathered_entries, lib=_LIBRARY)
torch.library.register_fake(f"{NAMESPACE}::picked_entries", _fake_picked_entries, lib=_LIBRARY)
