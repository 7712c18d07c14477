"""Which kernel computes a product, and why not a faster one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sparsekernels import build
from sparsekernels.errors import OperandError, ReferenceUsed
from sparsekernels.ops import cuda, reference
from sparsekernels.ops.operands import Gathered, Operands, Scaled

CPU_TYPES = (torch.float32, torch.bfloat16)


class Choice(NamedTuple):
    """The kernel that runs, and the reason where it is the reference."""

    kernel: str
    reason: str = ""


def choose(values: Tensor, operands: Operands) -> Choice:
    """Return which kernel takes a packed weight where and as it is."""
    if values.device.type == "cpu":
        return _choose_cpu(values, operands)
    if values.device.type == "cuda":
        reason = cuda.refusal(values, operands)
        if reason or build.cuda_kernels() is None:
            return Choice("reference", reason or "the CUDA kernels are not built here")
        return Choice("cuda-gather-mma" if isinstance(operands, Gathered) else "cuda-gather-mma.sp")
    return Choice("reference", f"no kernel runs on {values.device.type}")


def _choose_cpu(values: Tensor, operands: Operands) -> Choice:
    if values.dtype not in CPU_TYPES:
        kind = str(values.dtype).removeprefix("torch.")
        return Choice("reference", f"the CPU kernels take float32 and bfloat16, not {kind}")
    if isinstance(operands, Gathered) and operands.height % 8:
        return Choice("reference", "the CPU kernels take groups of 8, 16, 24, ... rows")
    kernels = build.cpu_kernels()
    if kernels is None:
        return Choice("reference", "the CPU kernels are not built here")
    return Choice(f"cpu-{kernels.isa_name()}")


def _tell(choice: Choice, values: Tensor) -> None:
    """Warn where somebody may expect a kernel: double precision never has one."""
    if choice.reason and values.dtype != torch.float64 and build.kernels_wanted():
        told = f"computed without a kernel: {choice.reason}"
        warnings.warn(told, ReferenceUsed, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return how far up the first line stands that is neither torch's nor this package's."""
    frame, level = sys._getframe(2), 2  # noqa: SLF001
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    return level


def _inside(module: str) -> bool:
    return module.partition(".")[0] in {"torch", "sparsekernels"}


def check_activations(x: Tensor, values: Tensor) -> None:
    """Raise OperandError unless activations and values share type and device."""
    if x.dtype != values.dtype:
        raise OperandError(
            f"activations are {x.dtype}, packed values {values.dtype}; convert either with .to()."
        )
    if x.device != values.device:
        raise OperandError(f"activations are on {x.device}, packed values on {values.device}.")


def linear(x: Tensor, values: Tensor, operands: Operands, out: int, bias: Tensor | None) -> Tensor:
    """Return x W' + bias, by the kernel that fits."""
    choice = choose(values, operands)
    if choice.kernel.startswith("cpu-"):
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        kernels = build.cpu_kernels()
        assert kernels is not None
        args = cpu_arguments(operands, out)
        name = "gather_linear" if isinstance(operands, Gathered) else "chosen_linear"
        y: Tensor = getattr(kernels, name)(flat, _plain(values, operands), *args, _float(bias))
        return y.reshape(*x.shape[:-1], out)
    if choice.kernel.startswith("cuda-"):
        return cuda.linear(build.cuda_kernels(), x, values, operands, out, bias)
    _tell(choice, values)
    return reference.linear(x, values, operands, out, bias)


def addmm(
    x: Tensor, values: Tensor, operands: Operands, out: int, bias: Tensor | None, scaled: Scaled
) -> Tensor:
    """Return beta * c + alpha * x W' + bias, by the kernel that fits."""
    choice = choose(values, operands)
    if choice.kernel.startswith("cpu-"):
        y = linear(x, values, operands, out, None)
        return reference.combined(y, bias, scaled)
    if choice.kernel.startswith("cuda-"):
        return cuda.addmm(build.cuda_kernels(), x, values, operands, out, bias, scaled)
    _tell(choice, values)
    return reference.addmm(x, values, operands, out, bias, scaled)


def conv2d(
    x: Tensor,
    values: Tensor,
    operands: Operands,
    out: int,
    window: Sequence[int],
    bias: Tensor | None,
) -> Tensor:
    """Return the convolution, by the kernel that fits."""
    choice = choose(values, operands)
    if choice.kernel.startswith("cpu-"):
        kernels = build.cpu_kernels()
        assert kernels is not None
        args = cpu_arguments(operands, out)
        name = "gather_conv2d" if isinstance(operands, Gathered) else "chosen_conv2d"
        y: Tensor = getattr(kernels, name)(
            x.contiguous(), _plain(values, operands), *args, list(window), _float(bias)
        )
        return y
    if choice.kernel.startswith("cuda-"):
        return cuda.conv2d(build.cuda_kernels(), x, values, operands, out, window, bias)
    _tell(choice, values)
    return reference.conv2d(x, values, operands, out, window, bias)


def _plain(values: Tensor, operands: Operands) -> Tensor:
    flat = values.reshape(-1) if isinstance(operands, Gathered) else values
    return flat.contiguous()


def _float(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.float().contiguous()


def cpu_arguments(operands: Operands, out: int) -> tuple[object, ...]:
    """Return what the compiled operators take after the values."""
    if isinstance(operands, Gathered):
        w = operands
        return (w.colptr, w.cols, w.rowptr, w.rows, w.overlay_ptr, w.overlay_cols, w.overlay, out)
    p = operands
    return (p.meta, p.cols, p.rows, p.n, p.m, p.bits, p.share, out)
