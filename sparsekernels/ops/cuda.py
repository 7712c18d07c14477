"""What the CUDA entry points need: transposed activations, tile sizes, metadata in their order.

Convention there: activations are (columns, tokens), products (rows, tokens), both with tokens side
by side. `product` keeps to it, so that calls in a row transpose nothing; operators return rows of
tokens, as everybody else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from sparsekernels.formats.bits import mma_order
from sparsekernels.ops import semi
from sparsekernels.ops.operands import Gathered, Operands, Picked, Scaled

TYPES = (torch.float16, torch.bfloat16)
HEIGHTS = (16, 32, 64, 128)  # rows of a tile that there are kernels for
PROCESSORS = 108  # an A100's; where the number is not asked for
_NOTHING = 0x44  # metadata of two groups of four that keep nothing


class Tile(NamedTuple):
    """How a product is cut: tokens of a tile and parts of the columns, 0: chosen; shim's seed."""

    tokens: int = 0
    splits: int = 0
    seed: int = 0


CHOSEN = Tile()


def refusal(values: Tensor, operands: Operands) -> str:
    """Return why the CUDA kernels do not take a weight; empty where they do."""
    if values.dtype not in TYPES:
        kind = str(values.dtype).removeprefix("torch.")
        return f"the CUDA kernels take float16 and bfloat16, not {kind}"
    if isinstance(operands, Gathered):
        if operands.height % 8 or not 0 < operands.height <= HEIGHTS[-1]:
            return f"the CUDA kernels take groups of 8 to {HEIGHTS[-1]} rows in eights"
        return ""
    if (operands.n, operands.m, operands.bits) != (2, 4, 2):
        return "the CUDA kernels take 2 of 4, also over a list of live columns"
    if operands.cols is not None and operands.share % 16 and len(values) > operands.share:
        return "the CUDA kernels take lists that 16, 32, ... rows share"
    return ""


def with_words(operands: Operands, kept: int) -> Operands:
    """Return operands with metadata in the kernels' order, where they take the weight at all.

    `kept` is the number of values in a row.
    """
    if isinstance(operands, Gathered) or (operands.n, operands.m, operands.bits) != (2, 4, 2):
        return operands
    return operands._replace(words=_words(operands.meta, kept))


def _words(meta: Tensor, kept: int) -> Tensor:
    if kept % 4:  # half of the last byte is nobody's
        meta = torch.cat([meta[:, :-1], meta[:, -1:] | (_NOTHING & 0xF0)], 1)
    return mma_order(pad(meta, (0, -meta.shape[1] % 4, 0, -meta.shape[0] % 16), value=_NOTHING))


def linear(
    kernels: Any, x: Tensor, values: Tensor, operands: Operands, out: int, bias: Tensor | None
) -> Tensor:
    """Return x W' + bias over the last axis of x, by compiled kernels."""
    flat = x.reshape(-1, x.shape[-1])
    kind = semi.backend(values, operands, out)
    if kind != semi.NEITHER:
        return semi.linear(kind, flat, values, operands, bias).reshape(*x.shape[:-1], out)
    y = product(kernels, flat.t(), values, operands, out, bias)
    return y.t().contiguous().reshape(*x.shape[:-1], out)  # as the operator's fake promises


def addmm(
    kernels: Any,
    x: Tensor,
    values: Tensor,
    operands: Operands,
    out: int,
    bias: Tensor | None,
    scaled: Scaled,
) -> Tensor:
    """Return beta * c + alpha * x W' + bias, all of it in the kernel's last step."""
    flat = x.reshape(-1, x.shape[-1])
    c = None if scaled.beta == 0 else scaled.c.reshape(-1, out).t()
    y = product(
        kernels, flat.t(), values, operands, out, bias, c=c, alpha=scaled.alpha, beta=scaled.beta
    )
    return y.t().contiguous().reshape(*x.shape[:-1], out)


def conv2d(
    kernels: Any,
    x: Tensor,
    values: Tensor,
    operands: Operands,
    out: int,
    window: Sequence[int],
    bias: Tensor | None = None,
    *,
    tile: Tile = CHOSEN,
) -> Tensor:
    """Return the convolution of (batch, channels, height, width) by an address function.

    The kernels take (channels, height, width, batch), images innermost, so that whatever the tap
    is, eight images are 16 bytes side by side. Batches are filled up to eights with zeros.
    """
    from sparsekernels.ops.library import conv_size

    batch = x.shape[0]
    size = [conv_size(x.shape[2 + axis], window, axis) for axis in (0, 1)]
    if not batch or not out or not x.shape[1]:
        y = x.new_zeros(batch, out, *size)
        return y if bias is None else y + bias.to(x.dtype).reshape(-1, 1, 1)
    images = _aligned(pad(x.permute(1, 2, 3, 0), (0, -batch % 8)).contiguous())
    columns, count = x.shape[1] * window[0] * window[1], size[0] * size[1] * images.shape[3]
    tail = (out, None if bias is None else bias.float().contiguous(), None, 1.0, 0.0, list(window))
    what = _Input(images, columns, count)
    y = _launch(kernels, what, values, operands, tail, tile._replace(tokens=128))
    return y[..., :batch].permute(3, 0, 1, 2).contiguous()


class _Input(NamedTuple):
    """Activations as kernels take them, their columns, and the tokens of the product."""

    x: Tensor
    columns: int
    tokens: int


def _launch(
    kernels: Any,
    what: _Input,
    values: Tensor,
    operands: Operands,
    tail: tuple[Any, ...],
    tile: Tile,
) -> Tensor:
    if isinstance(operands, Gathered):
        return _gather(kernels, what, values, operands, tail, tile)
    return _picked(kernels, what, values, operands, tail, tile)


def product(
    kernels: Any,
    xt: Tensor,
    values: Tensor,
    operands: Operands,
    out: int,
    bias: Tensor | None = None,
    *,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    tile: Tile = CHOSEN,
) -> Tensor:
    """Return alpha * W xt + beta * c + bias, (out, tokens).

    Parameters
    ----------
    kernels
        The namespace of `gather` and `picked`.
    xt
        (columns, tokens), in any layout.
    c
        (out, tokens) or None.
    tile
        How the product is cut.
    """
    count = xt.shape[1]
    if not count or not out:
        return xt.new_empty(out, count)
    padded = _aligned(pad(xt, (0, -count % 8)) if count % 8 else xt.contiguous())
    grown = None if c is None else _aligned(pad(c, (0, -count % 8)).contiguous())
    added = None if bias is None else bias.float().contiguous()
    tail: tuple[Any, ...] = (out, added, grown, alpha, beta, [])
    what = _Input(padded, xt.shape[0], padded.shape[1])
    return _launch(kernels, what, values, operands, tail, tile)[:, :count]


def _aligned(tensor: Tensor) -> Tensor:
    """Return a tensor on 16 bytes, which a view into another need not be."""
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def _gather(
    kernels: Any,
    what: _Input,
    values: Tensor,
    w: Gathered,
    tail: tuple[Any, ...],
    tile: Tile,
) -> Tensor:
    v = next(height for height in HEIGHTS if height >= w.height)
    sizes = w.colptr.diff() * w.rowptr.diff()
    valptr = pad(sizes.cumsum(0), (1, 0))
    groups = len(w.colptr) - 1
    work = w.cols.numel() // max(groups, 1)
    tokens, splits = _tile(tile, v, what, groups, work)
    overlay: Any = (None, None, None)
    if w.overlay_ptr is not None:
        overlay = (w.overlay_ptr, w.overlay_cols, w.overlay)
    places = (w.colptr, w.cols, w.rowptr, w.rows, valptr)
    flat = _aligned(values.reshape(-1).contiguous())
    y: Tensor = kernels.gather(what.x, flat, *places, *overlay, *tail, v, tokens, splits, tile.seed)
    return y


def _picked(
    kernels: Any,
    what: _Input,
    values: Tensor,
    w: Picked,
    tail: tuple[Any, ...],
    tile: Tile,
) -> Tensor:
    rows, length = len(values), values.shape[1] * 2
    words = _words(w.meta, values.shape[1]) if w.words is None else w.words
    more = (-length % 32, -rows % 16)
    grown = _aligned(pad(values, (0, more[0] // 2, 0, more[1])).contiguous())
    cols, ids, share = w.cols, w.rows, w.share
    if cols is not None:
        lists = cols.reshape(-1, length)
        cols = pad(lists, (0, more[0])).contiguous()
        share = share if len(lists) > 1 else -(-(rows + more[1]) // HEIGHTS[-1]) * HEIGHTS[-1]
    elif length + more[0] > what.columns:  # columns beyond the last: any, their values are zero
        plain = torch.arange(length, dtype=torch.int32, device=values.device)
        cols = pad(plain[None], (0, more[0])).contiguous()
        share = -(-(rows + more[1]) // HEIGHTS[-1]) * HEIGHTS[-1]
    if ids is not None and more[1]:
        ids = pad(ids, (0, more[1]), value=-1)
    v = _height(rows, share if cols is not None else 0)
    tokens, splits = _tile(tile, v, what, -(-len(grown) // v), length)
    y: Tensor = kernels.picked(
        what.x, grown, words, cols, ids, share, *tail, v, tokens, splits, tile.seed
    )
    return y


def _height(rows: int, share: int) -> int:
    """Return the highest tile that fits lists of `share` rows (0: none) and is not half empty."""
    fitting = [v for v in HEIGHTS if not share or share % v == 0]
    return max([v for v in fitting if v <= max(16, rows)], default=fitting[0])


def _tile(given: Tile, v: int, what: _Input, groups: int, columns: int) -> tuple[int, int]:
    """Return tokens of a tile and parts of the columns: as few parts as fill the processors."""
    wide = 256 if v in (32, 64) and what.tokens >= 1024 else 128
    tokens = given.tokens or wide
    blocks = groups * -(-what.tokens // tokens)
    count = _processors(what.x.device)
    wanted = min(8, max(1, count // max(1, blocks)), max(1, columns // 256))
    return tokens, given.splits or wanted


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return PROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
