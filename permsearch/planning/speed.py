"""How fast this machine's kernels are, measured in half a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

_BLOCK = (384, 384, 4096)  # rows, columns and entries of the distances that are timed
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Speed:
    """Speeds of one thread.

    Attributes
    ----------
    distances
        Entries a second of the 8-bit distances.
    maxima
        Entries a second of the float32 sums of maxima.
    pairing
        Seconds to pair n items, over n squared.
    rows
        Entries a second that are read, checked and valued in a pass over the scores.
    """

    distances: float
    maxima: float
    pairing: float
    rows: float


#: Of one core of an AMD EPYC with AVX2 at about 3 GHz.
TYPICAL = Speed(distances=95e9, maxima=15e9, pairing=1.0e-7, rows=0.33e9)


def measure() -> Speed:
    """Return the speeds of one thread here; kernels are compiled first, or read from the cache.

    Pairing and passes over scores are scaled from `TYPICAL` by the float32 kernel: they are mixes
    of many small loops.
    """
    from permsearch.kernels.l1 import summax_serial
    from permsearch.kernels.sad import padded_bytes, sad_serial

    rows, columns, width = _BLOCK
    rng = np.random.default_rng(0)
    block = padded_bytes(columns, width)
    block[:] = rng.integers(0, 256, block.shape, dtype=np.uint8)
    out = np.empty((rows, columns), np.int32)
    distances = _rate(lambda: sad_serial(block[:rows], block, out), rows * columns * width)
    floats = rng.random((columns, width // 4), np.float32)
    sums = np.empty((rows, columns), np.float32)
    work = rows * columns * (width // 4)
    maxima = _rate(lambda: summax_serial(floats[:rows], floats, sums), work)
    share = maxima / TYPICAL.maxima
    return Speed(distances, maxima, TYPICAL.pairing / share, TYPICAL.rows * share)


def _rate(call: Callable[[], None], work: int) -> float:
    """Return the work a second of CPU time; the median of some calls after a first one."""
    call()
    times = []
    for _ in range(_ROUNDS):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return work / max(median(times), 1e-9)
