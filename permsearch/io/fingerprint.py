"""A weight's fingerprint: the same values give the same one, wherever they were stored."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 22


def fingerprint(weight: NDArray[Any]) -> str:
    """Return the SHA-256, in hex, of a weight's shape and values.

    Floats narrower than 32 bits count as the float32 they equal, so that a bfloat16 file, its
    float32 copy and the tensor in memory agree. Bytes are little-endian, in row-major order.
    """
    narrow = weight.dtype.kind == "f" and weight.dtype.itemsize < 4
    kind = np.dtype(np.float32) if narrow else weight.dtype
    digest = hashlib.sha256(f"{kind.name}{list(weight.shape)}".encode())
    flat = np.ascontiguousarray(weight).reshape(-1)
    little = kind.newbyteorder("<")
    for start in range(0, flat.size, _CHUNK):
        digest.update(flat[start : start + _CHUNK].astype(little, copy=False).tobytes())
    return digest.hexdigest()
