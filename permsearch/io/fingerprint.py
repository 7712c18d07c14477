"""A weight's fingerprint: the same values give the same one, wherever they were stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 22


def fingerprint(weight: NDArray[Any]) -> str:
    """Return the SHA-256, in hex, of a weight's shape and values.

    Floats narrower than 32 bits count as the float32 they equal, so that a bfloat16 file, its
    float32 copy and the tensor in memory agree. Bytes are little-endian, in row-major order.
    """
    return fingerprint_of(weight.shape, [weight])


def fingerprint_of(shape: tuple[int, ...], parts: Iterable[NDArray[Any]]) -> str:
    """Return the fingerprint of a weight that comes in parts, runs of its rows from the first on.

    There is one part at least, and all are of one type.
    """
    digest = None
    for part in parts:
        narrow = part.dtype.kind == "f" and part.dtype.itemsize < 4
        kind = np.dtype(np.float32) if narrow else part.dtype
        if digest is None:
            digest = hashlib.sha256(f"{kind.name}{list(shape)}".encode())
        flat = np.ascontiguousarray(part).reshape(-1)
        little = kind.newbyteorder("<")
        for start in range(0, flat.size, _CHUNK):
            digest.update(flat[start : start + _CHUNK].astype(little, copy=False).tobytes())
    assert digest is not None
    return digest.hexdigest()
