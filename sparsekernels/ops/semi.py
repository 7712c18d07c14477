"""Plain 2:4 on a GPU: PyTorch's own products, cuSPARSELt first, then CUTLASS.

Nothing here has run on a GPU; tests put stand-ins in the place of PyTorch's operators, which check
what they are given. What those operators read is made once and kept as long as the values live
and do not change.
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.weak import WeakTensorKeyDictionary

from sparsekernels.formats.bits import cutlass_order
from sparsekernels.ops import reference
from sparsekernels.ops.operands import Operands, Picked

CUSPARSELT, CUTLASS, NEITHER = "cusparselt", "cutlass", ""
# Rows and columns of a weight in multiples of these, for 16-bit types; tokens are filled to eights.
WHOLE = {CUSPARSELT: (16, 16), CUTLASS: (32, 64)}
TOKENS = 8
# For each values tensor and backend: state of values and metadata, and what was made of them.
_PREPARED: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def backend(values: Tensor, operands: Operands, out: int) -> str:
    """Return which of PyTorch's 2:4 products takes a weight; empty where neither does.

    A weight has to be 2:4 as stored, without an order of rows or columns, in 16 bits and in whole
    tiles. `SparseSemiStructuredTensor._FORCE_CUTLASS` passes over cuSPARSELt, as in PyTorch.
    """
    if not isinstance(operands, Picked) or operands.cols is not None or operands.rows is not None:
        return NEITHER
    if (operands.n, operands.m, operands.bits) != (2, 4, 2) or len(values) != out:
        return NEITHER
    if values.dtype not in (torch.float16, torch.bfloat16) or not values.numel():
        return NEITHER
    forced = getattr(torch.sparse.SparseSemiStructuredTensor, "_FORCE_CUTLASS", False)
    for kind, there in ((CUSPARSELT, has_cusparselt() and not forced), (CUTLASS, has_cutlass())):
        rows, columns = WHOLE[kind]
        if there and out % rows == 0 and values.shape[1] * 2 % columns == 0:
            return kind
    return NEITHER


def has_cusparselt() -> bool:
    """Return whether this torch was built with cuSPARSELt and finds it."""
    aten = torch.ops.aten
    there = hasattr(aten, "_cslt_compress") and hasattr(aten, "_cslt_sparse_mm")
    return there and bool(torch.backends.cusparselt.is_available())


def has_cutlass() -> bool:
    """Return whether this torch has the CUTLASS operator."""
    return hasattr(torch.ops.aten, "_sparse_semi_structured_linear")


def linear(kind: str, x: Tensor, values: Tensor, operands: Operands, bias: Tensor | None) -> Tensor:
    """Return x W' + bias for x (tokens, columns), by the backend that `backend` named."""
    assert isinstance(operands, Picked)
    count = len(x)
    if not count:
        return x.new_empty(0, len(values))
    full = pad(x, (0, 0, 0, -count % TOKENS)).contiguous()
    own = None if bias is None else bias.to(values.dtype)
    parts = prepared(kind, values, operands)
    aten = torch.ops.aten
    if kind == CUSPARSELT:
        y: Tensor = aten._cslt_sparse_mm(  # noqa: SLF001  (none of these has a public form)
            parts[0], full.t(), bias=own, transpose_result=True
        )
    else:
        y = aten._sparse_semi_structured_linear(full, *parts, bias=own)  # noqa: SLF001
    return y[:count].contiguous()


def prepared(kind: str, values: Tensor, operands: Picked) -> tuple[Tensor, ...]:
    """Return what a backend reads of a weight, made anew where values or metadata have changed."""
    if values.is_inference() or operands.meta.is_inference():
        return _made(kind, values, operands)  # such tensors do not tell when they change
    state = (_state(values), _state(operands.meta))
    if values not in _PREPARED:
        _PREPARED[values] = {}
    kept = _PREPARED[values]
    if kind not in kept or kept[kind][0] != state or kept[kind][1]() is not operands.meta:
        kept[kind] = state, weakref.ref(operands.meta), _made(kind, values, operands)
    found: tuple[Tensor, ...] = kept[kind][2]
    return found


def _state(tensor: Tensor) -> tuple[object, ...]:
    """Return what differs when a tensor was written to or, by `module.to`, given other memory."""
    return tensor._version, tensor.data_ptr(), tensor.dtype  # noqa: SLF001


def _made(kind: str, values: Tensor, operands: Picked) -> tuple[Tensor, ...]:
    with torch.no_grad():
        if kind == CUTLASS:
            return values.detach().contiguous(), cutlass_order(operands.meta)
        dense = reference.dense_of(values, operands, len(values), values.shape[1] * 2)
        return (torch.ops.aten._cslt_compress(dense),)  # noqa: SLF001
