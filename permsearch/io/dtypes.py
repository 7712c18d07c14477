"""Number types of tensor files, and their values as numpy arrays, without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Decode = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class StoredType:
    """A number type as a file stores it.

    Attributes
    ----------
    label
        The name shown to people: numpy's, or torch's where numpy has none.
    bits
        Bits of one number.
    storage
        The little-endian numpy type that holds the bits.
    decode
        Turns stored bits into numbers; None where the storage type is the number type.
    readable
        Whether numbers can be had at all.
    """

    label: str
    bits: int
    storage: str = "|u1"
    decode: Decode | None = None
    readable: bool = True


def bfloat16_to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return bfloat16 numbers as float32, exactly: they are its upper half."""
    wide = bits.astype(np.uint32)
    np.left_shift(wide, 16, out=wide)
    return wide.view(np.float32)


def float8_e5m2_to_float32(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float8 (5 exponent bits) as float32, exactly: it is the upper half of float16."""
    half = np.left_shift(bits.astype(np.uint16), 8)
    return half.view(np.float16).astype(np.float32)


def _e4m3_table() -> NDArray[np.float32]:
    code = np.arange(256)
    exponent, fraction = (code >> 3) & 15, code & 7
    normal = np.ldexp(1.0 + fraction / 8, exponent - 7)
    value = np.where(exponent == 0, np.ldexp(fraction / 8, -6), normal)
    value[(code & 127) == 127] = np.nan  # the only special value: this type has no infinity
    return np.where(code >= 128, -value, value).astype(np.float32)


def float8_e4m3_to_float32(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float8 (4 exponent bits, no infinity) as float32, exactly, through a table."""
    return _e4m3_table()[bits]


def _to_bool(bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return bits.astype(np.bool_)


STORED_TYPES: dict[str, StoredType] = {
    "F64": StoredType("float64", 64, "<f8"),
    "F32": StoredType("float32", 32, "<f4"),
    "F16": StoredType("float16", 16, "<f2"),
    "BF16": StoredType("bfloat16", 16, "<u2", bfloat16_to_float32),
    "F8_E4M3": StoredType("float8_e4m3fn", 8, "|u1", float8_e4m3_to_float32),
    "F8_E5M2": StoredType("float8_e5m2", 8, "|u1", float8_e5m2_to_float32),
    "I64": StoredType("int64", 64, "<i8"),
    "I32": StoredType("int32", 32, "<i4"),
    "I16": StoredType("int16", 16, "<i2"),
    "I8": StoredType("int8", 8, "|i1"),
    "U64": StoredType("uint64", 64, "<u8"),
    "U32": StoredType("uint32", 32, "<u4"),
    "U16": StoredType("uint16", 16, "<u2"),
    "U8": StoredType("uint8", 8, "|u1"),
    "BOOL": StoredType("bool", 8, "|u1", _to_bool),
    "C64": StoredType("complex64", 64, "<c8"),
    # Known sizes, so that a header can be checked, but no numbers: block-scaled or rare formats.
    "F8_E8M0": StoredType("float8_e8m0fnu", 8, readable=False),
    "F8_E4M3FNUZ": StoredType("float8_e4m3fnuz", 8, readable=False),
    "F8_E5M2FNUZ": StoredType("float8_e5m2fnuz", 8, readable=False),
    "F6_E2M3": StoredType("float6_e2m3", 6, readable=False),
    "F6_E3M2": StoredType("float6_e3m2", 6, readable=False),
    "F4": StoredType("float4_e2m1", 4, readable=False),
}
"""Number types by the code that a safetensors header uses."""

FLOATS = frozenset({"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})
SMALL_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})
WIDE_INTEGERS = frozenset({"int32", "uint32", "int64", "uint64"})
