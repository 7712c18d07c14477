"""What the two kernel families take beside activations and values.

*Gathered*: groups of rows that share kept columns (vector-wise, Shfl-BW, block, tile-wise).
*Picked*: rows that keep n of every m entries of a list of columns (N:M, V:N:M, HiNM).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor


class Gathered(NamedTuple):
    """Group g has rows rowptr[g]..rowptr[g+1] and columns colptr[g]..colptr[g+1].

    Values lie group after group, within one column after column. Row -1 is padding; every row of
    the output is in one group (without columns if need be): the CUDA kernels write those alone.

    Parameters
    ----------
    colptr, rowptr
        int64, one more than there are groups.
    cols, rows
        int32.
    overlay_ptr, overlay_cols, overlay
        Single entries on top, as CSR: int64, int32, floats; or None.
    height
        Rows of the highest group.
    """

    colptr: Tensor
    cols: Tensor
    rowptr: Tensor
    rows: Tensor
    overlay_ptr: Tensor | None = None
    overlay_cols: Tensor | None = None
    overlay: Tensor | None = None
    height: int = 0


class Picked(NamedTuple):
    """Row r keeps n of every m columns of list r // share; values and metadata are matrices.

    Parameters
    ----------
    meta
        uint8: positions within a group, `bits` each, lowest bits first, rows on whole bytes.
    cols
        int32, one list of columns for each `share` rows; None: the columns as they are.
    rows
        int32: where each row goes, -1 nowhere; None: row r to r.
    n, m, bits, share
        See above.
    words
        The metadata as tensor cores read it (`bits.mma_order`), or None: made when needed.
    """

    meta: Tensor
    cols: Tensor | None
    rows: Tensor | None
    n: int
    m: int
    bits: int
    share: int
    words: Tensor | None = None


class Scaled(NamedTuple):
    """What a product is added to: beta * c + alpha * product; c is not read where beta is 0."""

    c: Tensor
    alpha: float
    beta: float


Operands: TypeAlias = Gathered | Picked
