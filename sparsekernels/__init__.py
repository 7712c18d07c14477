"""Packed sparse weights and the operations on them, on torch tensors.

`pack` lays the kept entries of a weight out for the kernels of its pattern, `SparseLinear` and
`SparseConv2d` compute with it, `swap_modules_` puts them into a network. For every operation a
plain torch reference runs anywhere; CPU kernels are compiled on first use (`permsearch doctor`
says what runs here). Importing the package compiles nothing.
"""

from __future__ import annotations

from sparsekernels.errors import (
    BuildError,
    KernelError,
    OperandError,
    PackedFileError,
    PackError,
    ReferenceUsed,
)
from sparsekernels.files import load_packed, save_packed
from sparsekernels.formats import (
    BlockWeight,
    HiNMWeight,
    NMWeight,
    PackedWeight,
    TileWiseWeight,
    VectorWiseWeight,
    VNMWeight,
    pack,
)
from sparsekernels.formats.text import dump_text, load_text
from sparsekernels.functional import addmm, conv2d, linear
from sparsekernels.modules import SparseConv2d, SparseLinear
from sparsekernels.swap import Swapped, Swaps, swap_modules_

__all__ = [
    "BlockWeight",
    "BuildError",
    "HiNMWeight",
    "KernelError",
    "NMWeight",
    "OperandError",
    "PackError",
    "PackedFileError",
    "PackedWeight",
    "ReferenceUsed",
    "SparseConv2d",
    "SparseLinear",
    "Swapped",
    "Swaps",
    "TileWiseWeight",
    "VNMWeight",
    "VectorWiseWeight",
    "addmm",
    "conv2d",
    "dump_text",
    "linear",
    "load_packed",
    "load_text",
    "pack",
    "save_packed",
    "swap_modules_",
]
