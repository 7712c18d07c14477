"""Gradients of the operators, for activations, packed values, overlay and bias.

A product's gradients are dense products; `entries` picks from them what is stored. All of it are
operators again, so second derivatives and the compiler go through.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsekernels.ops import reference
from sparsekernels.ops.library import _LIBRARY, NAMESPACE

OPS = torch.ops.sparsekernels


class _Family:
    """How one family's operators take their arguments: x, values, parts, out, bias[, window]."""

    def __init__(self, name: str, parts: int) -> None:
        self.name, self.parts = name, parts

    def register(self) -> None:
        """Register the gradients of the five operators."""
        for kind in ("linear", "addmm", "conv2d", "dense", "entries"):
            torch.library.register_autograd(
                f"{NAMESPACE}::{self.name}_{kind}",
                getattr(self, f"{kind}_backward"),
                setup_context=getattr(self, f"{kind}_context"),
                lib=_LIBRARY,
            )

    def entries(self, dense: Tensor, weight: tuple[Any, ...]) -> tuple[Tensor, Tensor | None]:
        """Return the stored values' and the overlay's part of a dense gradient."""
        found = getattr(OPS, f"{self.name}_entries")(dense, *weight)
        return found if isinstance(found, tuple) else (found, None)

    def given(
        self, values: Tensor | None, overlay: Tensor | None, weight: tuple[Any, ...]
    ) -> list[Any]:
        """Return gradients for the weight's arguments."""
        rest: list[Any] = [None] * (self.parts - 1)
        if self.name == "gathered" and weight[1] is not None:
            rest[0] = overlay
        return [values, *rest]

    # ---- linear

    def linear_context(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        self._keep(ctx, inputs)

    def linear_backward(self, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, weight, out, _ = self._kept(ctx)
        flat, rows = grad.reshape(-1, out), x.reshape(-1, x.shape[-1])
        to_x = to_values = to_overlay = None
        if ctx.needs_input_grad[0]:
            dense = getattr(OPS, f"{self.name}_dense")(*weight, out, x.shape[-1])
            to_x = (flat @ dense).reshape(x.shape)
        if any(ctx.needs_input_grad[1:3]):
            to_values, to_overlay = self.entries(flat.t() @ rows, weight)
        to_bias = flat.sum(0).to(ctx.bias_type) if ctx.needs_input_grad[self.parts + 2] else None
        return (to_x, *self.given(to_values, to_overlay, weight), None, to_bias)

    # ---- addmm: beta * c + alpha * x W' + bias

    def addmm_context(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        self._keep(ctx, inputs[:-3])
        ctx.scales = inputs[-2:]

    def addmm_backward(self, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        alpha, beta = ctx.scales
        *found, to_bias = self.linear_backward(ctx, grad * alpha)
        if to_bias is not None:
            to_bias = grad.flatten(0, -2).sum(0).to(ctx.bias_type)
        to_c = grad * beta if ctx.needs_input_grad[-3] else None
        return (*found, to_bias, to_c, None, None)

    # ---- conv2d

    def conv2d_context(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        self._keep(ctx, inputs)

    def conv2d_backward(self, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        x, weight, out, window = self._kept(ctx)
        stride, padding, dilation = window[2:4], window[4:6], window[6:8]
        columns = x.shape[1] * window[0] * window[1]
        dense = getattr(OPS, f"{self.name}_dense")(*weight, out, columns)
        needs = [ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:3]), False]
        to_x, to_dense, _ = torch.ops.aten.convolution_backward(
            grad, x, reference.conv_weight(dense, window), None, stride, padding, dilation,
            False, [0, 0], 1, needs,
        )  # fmt: skip
        to_values = to_overlay = None
        if needs[1]:
            to_values, to_overlay = self.entries(reference.conv_matrix(to_dense), weight)
        wanted = ctx.needs_input_grad[self.parts + 2]
        to_bias = grad.sum((0, 2, 3)).to(ctx.bias_type) if wanted else None
        return (
            to_x if needs[0] else None,
            *self.given(to_values, to_overlay, weight),
            None,
            to_bias,
            None,
        )

    def _keep(self, ctx: Any, inputs: tuple[Any, ...]) -> None:
        x, *weight = inputs[: self.parts + 1]
        out, bias, *window = inputs[self.parts + 1 :]
        ctx.bias_type = None if bias is None else bias.dtype
        ctx.rest = (out, window[0] if window else None)
        self._save(ctx, weight, x)

    def _kept(self, ctx: Any) -> tuple[Tensor, tuple[Any, ...], int, Any]:
        x, weight = self._saved(ctx)
        return x, weight, *ctx.rest

    def _save(self, ctx: Any, weight: list[Any], *more: Tensor) -> None:
        ctx.plain = [None if isinstance(part, Tensor) else (part,) for part in weight]
        ctx.save_for_backward(*more, *(part for part in weight if isinstance(part, Tensor)))

    def _saved(self, ctx: Any) -> tuple[Any, tuple[Any, ...]]:
        first, *tensors = ctx.saved_tensors
        given = iter(tensors)
        return first, tuple(next(given) if part is None else part[0] for part in ctx.plain)

    # ---- dense and entries: each other's adjoint

    def dense_context(self, ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        self._save(ctx, list(inputs[: self.parts]), inputs[0])

    def dense_backward(self, ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        _, weight = self._saved(ctx)
        return (*self.given(*self.entries(grad, weight), weight), None, None)

    def entries_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.shape = inputs[0].shape
        self._save(ctx, list(inputs[1:]), inputs[1])

    def entries_backward(self, ctx: Any, grad: Tensor, *overlay: Tensor) -> tuple[Any, ...]:
        _, (_, *rest) = self._saved(ctx)
        if self.name == "gathered" and rest[0] is not None:
            rest[0] = overlay[0]
        dense = getattr(OPS, f"{self.name}_dense")(grad, *rest, *ctx.shape)
        return (dense, *[None] * self.parts)


FAMILIES = {"gathered": _Family("gathered", 9), "picked": _Family("picked", 9)}
for _family in FAMILIES.values():
    _family.register()
