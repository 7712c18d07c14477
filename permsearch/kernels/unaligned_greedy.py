"""Taking blocks in a given order wherever they overlap none that was taken before."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def take_in_turn(ranked, columns, size, kept, mask):
    """Mark blocks in the order of `ranked`, at most `kept`, that overlap none marked before.

    Parameters
    ----------
    ranked : int64 array
        Blocks: row times the number of starts of a row, plus start.
    columns : int
        Starts of a row.
    size, kept : int
    mask : bool array (R, columns + size - 1)
        False; kept entries are marked.
    """
    done = 0
    for k in range(ranked.shape[0]):
        if done == kept:
            break
        r, first = ranked[k] // columns, ranked[k] % columns
        # blocks are equally long: one that overlaps another covers one of its ends
        if mask[r, first] or mask[r, first + size - 1]:
            continue
        for c in range(first, first + size):
            mask[r, c] = True
        done += 1
    return np.int64(done)
