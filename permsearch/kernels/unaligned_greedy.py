"""Taking blocks in a given order wherever they overlap none that was taken before."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def take_in_turn(ranked, size, kept, mask, starts):
    """Mark blocks in the order of `ranked`, at most `kept`, that overlap none marked before.

    Parameters
    ----------
    ranked : int64 array
        Blocks: row times C, plus the column where it begins.
    size, kept : int
    mask, starts : bool arrays (R, C)
        Entries of blocks marked before, and where those begin; updated.
    """
    columns = mask.shape[1]
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
        starts[r, first] = True
        done += 1
