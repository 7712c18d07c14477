"""The `psadbw` instruction for numba, and a plain twin for processors without AVX2.

Both offer ``tile(y, i, a, c, out)``, which writes the sums of absolute differences of rows
i .. i+2 of ``y`` with rows c .. c+3 of ``a`` to ``out[i:i+3, c:c+4]``, and ``pair(y, i, a, c)``,
which returns one such sum. Arrays are C-contiguous, rows a multiple of `PAD` bytes long.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import config as _numba_config
from numba import njit, types
from numba.core import cgutils as _numba_cgutils
from numba.extending import intrinsic

# numba sets these up at run time, so type checkers cannot see into them.
config: Any = _numba_config
cgutils: Any = _numba_cgutils

PAD = 32
TILE_ROWS = 3  # 12 sums, 3 rows and 1 column just fill the 16 vector registers of AVX2
TILE_COLS = 4

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES = ir.VectorType(_I8, PAD)
_QUADS = ir.VectorType(_I64, 4)
_WORDS = ir.VectorType(_I32, 8)
_FOUR = ir.VectorType(_I32, 4)


def _has_psadbw() -> bool:
    """Whether numba compiles for a processor with AVX2 (LLVM aborts on an unknown instruction)."""
    if config.DISABLE_JIT:
        return False
    if config.CPU_FEATURES is not None:
        return "+avx2" in config.CPU_FEATURES
    return config.CPU_NAME in {None, "host"} and llvm.get_host_cpu_features().get("avx2", False)


HAS_PSADBW: bool = _has_psadbw()


class _Rows:
    """Byte pointers to consecutive rows of an array inside code being built."""

    def __init__(self, builder: Any, array: Any, first: Any, count: int) -> None:
        stride = cgutils.unpack_tuple(builder, array.strides)[0]
        base = builder.bitcast(array.data, _I8.as_pointer())
        rows = [builder.add(first, _I64(k)) for k in range(count)]
        self.at = [builder.gep(base, [builder.mul(row, stride)]) for row in rows]
        self.length = cgutils.unpack_tuple(builder, array.shape)[1]


def _load(builder: Any, pointer: Any, offset: Any) -> Any:
    place = builder.bitcast(builder.gep(pointer, [offset]), _BYTES.as_pointer())
    return builder.load(place, align=1)


def _accumulate(builder: Any, left: _Rows, right: _Rows) -> list[Any]:
    """Four 64-bit partial sums for each pair of a left and a right row, left rows outermost."""
    sad = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_QUADS, [_BYTES, _BYTES]), "llvm.x86.avx2.psad.bw"
    )
    sums = [cgutils.alloca_once(builder, _QUADS) for _ in left.at for _ in right.at]
    for total in sums:
        builder.store(ir.Constant(_QUADS, [0] * 4), total)
    with cgutils.for_range_slice(builder, _I64(0), left.length, _I64(PAD), intp=_I64) as (at, _):
        held = [_load(builder, row, at) for row in left.at]
        for c, column in enumerate(right.at):
            value = _load(builder, column, at)
            for p, row in enumerate(held):
                total = sums[p * len(right.at) + c]
                part = builder.call(sad, [row, value])
                builder.store(builder.add(builder.load(total), part), total)
    return [builder.load(total) for total in sums]


def _pick(builder: Any, pair: list[Any], lanes: list[int]) -> Any:
    return builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


def _four_totals(builder: Any, parts: list[Any]) -> Any:
    """Sum the lanes of four partial sums at once, into one vector of four 32-bit totals."""
    high = ir.Constant(_QUADS, [32] * 4)
    zipped = [
        builder.bitcast(builder.or_(parts[k], builder.shl(parts[k + 1], high)), _WORDS)
        for k in (0, 2)
    ]
    even = _pick(builder, zipped, [0, 1, 8, 9, 4, 5, 12, 13])
    odd = _pick(builder, zipped, [2, 3, 10, 11, 6, 7, 14, 15])
    both = builder.add(even, odd)
    low, top = (_pick(builder, [both, both], lanes) for lanes in ([0, 1, 2, 3], [4, 5, 6, 7]))
    return builder.add(low, top)


@intrinsic
def _vector_tile(typingctx, y, i, a, c, out):
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [
            context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2, 4)
        ]
        left = _Rows(builder, arrays[0], args[1], TILE_ROWS)
        right = _Rows(builder, arrays[1], args[3], TILE_COLS)
        target = _Rows(builder, arrays[2], args[1], TILE_ROWS)
        sums = _accumulate(builder, left, right)
        offset = builder.mul(args[3], _I64(4))
        for p, row in enumerate(target.at):
            place = builder.bitcast(builder.gep(row, [offset]), _FOUR.as_pointer())
            four = sums[p * TILE_COLS : (p + 1) * TILE_COLS]
            builder.store(_four_totals(builder, four), place, align=4)
        return context.get_dummy_value()

    return types.void(y, types.intp, a, types.intp, out), build


@intrinsic
def _vector_pair(typingctx, y, i, a, c):
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = [context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2)]
        left, right = (
            _Rows(builder, x, at, 1) for x, at in zip(arrays, (args[1], args[3]), strict=True)
        )
        quads = _accumulate(builder, left, right)[0]
        lanes = [builder.extract_element(quads, _I32(k)) for k in range(4)]
        return builder.add(builder.add(lanes[0], lanes[1]), builder.add(lanes[2], lanes[3]))

    return types.int64(y, types.intp, a, types.intp), build


@njit(cache=True, nogil=True)
def _plain_pair(y, i, a, c):
    row, column = y[i], a[c]
    total = np.int32(0)
    for r in range(row.shape[0]):
        d = np.int32(row[r]) - np.int32(column[r])
        total += d if d > 0 else -d
    return np.int64(total)


@njit(cache=True, nogil=True)
def _plain_tile(y, i, a, c, out):
    for p in range(TILE_ROWS):
        for q in range(TILE_COLS):
            out[i + p, c + q] = _plain_pair(y, i + p, a, c + q)


plain = SimpleNamespace(tile=_plain_tile, pair=_plain_pair)
vector = SimpleNamespace(tile=_vector_tile, pair=_vector_pair)
