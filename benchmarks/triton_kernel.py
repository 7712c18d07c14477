# mypy: ignore-errors
"""The Triton kernel itself; importing this needs triton, which CUDA builds of torch bring."""

import triton
import triton.language as tl


@triton.jit
def shflbw_kernel(
    x, values, indptr, indices, rows, y, tokens, ldx, ldy,
    V: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One group of V rows by BM tokens; rows are written where they belong."""
    group, m = tl.program_id(0), tl.program_id(1) * BM + tl.arange(0, BM)
    v = tl.arange(0, V)
    total = tl.zeros((BM, V), dtype=tl.float32)
    begin, end = tl.load(indptr + group), tl.load(indptr + group + 1)
    for k0 in range(begin, end, BK):
        k = k0 + tl.arange(0, BK)
        live = k < end
        col = tl.load(indices + k, mask=live, other=0)
        a = tl.load(
            x + m[:, None] * ldx + col[None, :],
            mask=(m[:, None] < tokens) & live[None, :],
            other=0.0,
        )
        w = tl.load(values + k[:, None] * V + v[None, :], mask=live[:, None], other=0.0)
        total += tl.dot(a, w)
    row = tl.load(rows + group * V + v)
    keep = (m[:, None] < tokens) & (row[None, :] >= 0)
    tl.store(y + m[:, None] * ldy + row[None, :], total.to(y.dtype.element_ty), mask=keep)
