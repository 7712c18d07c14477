"""The plain text in which the published Shfl-BW kernels dump and load matrices.

Whitespace separates: rows, columns, number of blocks, rows and columns of a block, a flag for row
ids, the offsets of the rows of blocks, each block's place in its row (in blocks), the values
column first within a block, and where the flag is 1 the row ids. Their example of a shuffled
matrix has ids after the flag 0, which a reader then misses: 1 is written whenever ids follow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsekernels.errors import PackedFileError, PackError
from sparsekernels.formats.block import BlockWeight
from sparsekernels.formats.vector_wise import VectorWiseWeight


def dump_text(weight: VectorWiseWeight | BlockWeight) -> str:
    """Return a packed matrix as text; values are written so that they are read back exactly.

    Raises
    ------
    PackError
        For convolutions, rows or columns that are padding, and column orders, which the text
        cannot say.

    Examples
    --------
    >>> import torch
    >>> import sparsekernels as sk
    >>> weight = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    >>> text = dump_text(sk.pack(weight, None, "block:2x1@0.5"))
    >>> torch.equal(load_text(text).unpack(), weight)
    True
    """
    block_rows, block_cols = _checked(weight)
    plain = torch.arange(weight.shape[0], dtype=torch.int32)
    ordered = torch.equal(weight.row_ids.cpu(), plain)
    head = [*weight.shape, weight.indices.numel(), block_rows, block_cols, int(not ordered)]
    lines = [str(number) for number in head]
    lines += [_line(weight.indptr.tolist()), _line(weight.indices.tolist())]
    # a float's shortest text that reads back as the same number of the wider type
    lines.append(_line(weight.values.double().reshape(-1).tolist()))
    if not ordered:
        lines.append(_line(weight.row_ids.tolist()))
    return "\n".join(lines) + "\n"


def _line(numbers: list[Any]) -> str:
    return " ".join(map(repr, numbers))


def _checked(weight: VectorWiseWeight | BlockWeight) -> tuple[int, int]:
    if len(weight.shape) != 2:
        raise PackError("the text form holds matrices, not convolutions.")
    if any(weight.padded):
        raise PackError(f"the text form has no padding; the weight was padded by {weight.padded}.")
    if isinstance(weight, VectorWiseWeight):
        return weight.v, 1
    plain = torch.arange(weight.shape[1], dtype=torch.int32)
    if not torch.equal(weight.col_ids.cpu(), plain):
        raise PackError("the text form has no column order; reorder the columns first.")
    return weight.values.shape[2], weight.values.shape[1]


def load_text(text: str, dtype: torch.dtype = torch.float32) -> VectorWiseWeight | BlockWeight:
    """Return the packed matrix of a text: vector-wise where blocks are one column wide.

    Raises
    ------
    PackedFileError
        When numbers are missing, left over, or do not fit together.

    Examples
    --------
    >>> print(load_text("2 2 1 2 1 0  0 1  0  1.0 2.0").unpack())
    tensor([[1., 0.],
            [2., 0.]])
    """
    numbers = text.split()
    try:
        rows, cols, count, high, wide, shuffled = (int(number) for number in numbers[:6])
        if min(rows, cols, high, wide) < 1 or count < 0 or shuffled not in (0, 1):
            raise ValueError("its sizes are not positive or its flag is neither 0 nor 1")
        if rows % high or cols % wide:
            raise ValueError(f"{rows} x {cols} does not split into blocks of {high} x {wide}")
        sizes = [rows // high + 1, count, count * high * wide, rows * shuffled]
        found = _parts(numbers[6:], sizes)
        indptr, indices = _integers(found[0]), _integers(found[1])
        values = torch.tensor([float(number) for number in found[2]], dtype=torch.float64).to(dtype)
        ids = _integers(found[3]) if shuffled else torch.arange(rows)
        if not torch.equal(ids.sort().values, torch.arange(rows)):
            raise ValueError("its row ids are no order of the rows")
        return _weight((rows, cols), (high, wide), (indptr, indices, values, ids))
    except (ValueError, PackError) as error:
        raise PackedFileError(f"the text is no dumped matrix: {error}.") from error


def _parts(numbers: list[str], sizes: list[int]) -> list[list[str]]:
    if len(numbers) != sum(sizes):
        raise ValueError(f"{len(numbers)} numbers follow the head, {sum(sizes)} should")
    parts, at = [], 0
    for size in sizes:
        parts.append(numbers[at : at + size])
        at += size
    return parts


def _integers(numbers: list[str]) -> Tensor:
    return torch.tensor([int(number) for number in numbers], dtype=torch.int64)


def _weight(
    shape: tuple[int, int], block: tuple[int, int], parts: tuple[Tensor, ...]
) -> VectorWiseWeight | BlockWeight:
    (rows, cols), (high, wide), (indptr, indices, values, ids) = shape, block, parts
    share = len(indices) * high * wide / (rows * cols)
    if wide == 1:
        return VectorWiseWeight(
            pattern=f"vector:{high}@{share:.6f}",
            shape=shape,
            values=values.reshape(-1, high),
            indptr=indptr,
            indices=indices.int(),
            row_ids=ids.int(),
        )
    return BlockWeight(
        pattern=f"block:{high}x{wide}@{share:.6f}",
        shape=shape,
        values=values.reshape(-1, wide, high),
        indptr=indptr,
        indices=indices.int(),
        row_ids=ids.int(),
        col_ids=torch.arange(cols, dtype=torch.int32),
    )
