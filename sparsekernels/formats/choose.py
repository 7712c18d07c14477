"""From a weight, its mask and a pattern to the format that holds them."""

from __future__ import annotations

from typing import Any

from sparsekernels.errors import PackError
from sparsekernels.formats.base import PackedWeight
from sparsekernels.formats.block import BlockWeight
from sparsekernels.formats.matrix import sheet_of
from sparsekernels.formats.nm import NMWeight
from sparsekernels.formats.tile_wise import TileWiseWeight
from sparsekernels.formats.vector_wise import VectorWiseWeight
from sparsekernels.formats.vnm import HiNMWeight, VNMWeight
from sparsekernels.spec import read_spec

FORMATS: dict[str, type[PackedWeight]] = {
    kind.kind: kind
    for kind in (NMWeight, VectorWiseWeight, BlockWeight, TileWiseWeight, VNMWeight, HiNMWeight)
}


def pack(
    weight: Any,
    mask: Any,
    pattern: Any,
    rows: Any = None,
    cols: Any = None,
    *,
    tiles: Any = None,
) -> PackedWeight:
    """Pack the kept entries of a weight for the kernels of its pattern.

    Parameters
    ----------
    weight
        (out, in) or (out, in, *k), floating point; tensor or array.
    mask
        Boolean, true = kept, in the layout of the weight; None: wherever the weight is not zero.
    pattern
        A text such as ``"vector:32@0.25"`` or a value of `permsearch.patterns`.
    rows, cols
        The orders under which the mask is of the pattern (position to row, to input channel), as
        a search returned them; None: as they are. The packed weight still maps the activations
        as they come to the outputs as they were: the kernels read and write through the orders.
    tiles
        HiNM only: the tiles' own column orders.

    Returns
    -------
    The packed weight; ``unpack()`` gives the masked weight back bit for bit.

    Raises
    ------
    PackError
        When the mask is not of the pattern, with the number of places where it is not, or when
        anything does not fit.

    Examples
    --------
    >>> import torch
    >>> weight = torch.tensor([[5.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, -3.0]])
    >>> packed = pack(weight, weight != 0, "2:4")
    >>> packed.values
    tensor([[ 5.,  2.],
            [ 1., -3.]])
    >>> torch.equal(packed.unpack(), weight)
    True
    """
    spec = read_spec(pattern)
    sheet = sheet_of(weight, mask, rows, cols)
    shape = tuple(weight.shape)
    kind = FORMATS[spec.kind]
    if kind is HiNMWeight:
        return HiNMWeight.pack(sheet, spec, shape, tiles)
    if tiles is not None:
        raise PackError(f"{spec.text} has no orders of single tiles; only hinm takes tiles=.")
    return kind.pack(sheet, spec, shape)  # type: ignore[attr-defined,no-any-return]
