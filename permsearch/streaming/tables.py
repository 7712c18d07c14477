"""What the search asks of a stack, added up over its blocks of rows: sums of levels, exact.

Every value is doubled, since ``2 max(y, a) = y + a + |y - a|``: a matrix of values is two vectors
of sums and one matrix of distances. Integers have no rounding, so nothing here depends on where
the blocks are cut or on the device that computes the distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.streaming.device import Device
from permsearch.streaming.levels import Levels

I64 = NDArray[np.int64]

_ROWS = 512  # rows of a matrix computed at once
_NARROW = 1 << 28  # doubled sums up to here stay within int32, gains of a swap included


def union_values(levels: Levels, parts: I64, n: int, device: Device) -> NDArray[Any]:
    """Return twice what the union of two parts keeps, in levels, symmetric; no diagonal.

    The streamed twin of `permsearch.kernels.pairs.union_values`.

    Parameters
    ----------
    parts : int64 array, shape (P, size)
        Columns of each part.
    n : int
        Entries that a union keeps.

    Returns
    -------
    integer array, shape (P, P)
    """
    from permsearch.kernels.pairs import top_lists

    count = len(parts)
    values = np.zeros((count, count), kind_of(levels.rows, n))
    mass = np.zeros(count, values.dtype)
    for block in levels.blocks():
        lists = top_lists(block, parts, n)
        left = lists.reshape(count, -1)
        right = left if n == 1 else np.ascontiguousarray(lists[:, ::-1]).reshape(left.shape)
        mass += left.sum(axis=1, dtype=np.int64)
        held = device.hold(right)
        for first in range(0, count, _ROWS):
            last = min(count, first + _ROWS)
            values[first:last, first:] += held.distances(left[first:last], first)
    values += mass
    values += mass[:, None]
    for first in range(0, count, _ROWS):
        last = min(count, first + _ROWS)
        values[last:, first:last] = values[first:last, last:].T
    return values


def kind_of(rows: int, n: int) -> type[np.signedinteger[Any]]:
    """Return the type that doubled sums over so many rows need."""
    return np.int32 if 2 * 255 * n * rows < _NARROW else np.int64


def kept(levels: Levels, order: I64, n: int, m: int) -> I64:
    """Return what each group keeps under an order, in levels; not doubled."""
    from permsearch.kernels.value import group_values

    total = np.zeros(len(order) // m, np.int64)
    for block in levels.blocks():
        total += group_values(block, order, n, m).astype(np.int64)
    return total


class SwapTable:
    """Twice the values of all swaps of an order; see `permsearch.kernels.swap`.

    Attributes
    ----------
    values
        values[a, b] is twice what the group of column a keeps with b in its place.
    own
        values[a, a]: twice what the group keeps.
    """

    def __init__(self, levels: Levels, n: int, m: int, device: Device) -> None:
        count = levels.columns
        self._levels, self._n, self._m, self._device = levels, n, m, device
        self.values = np.empty((count, count), kind_of(levels.rows, n))
        self.own = np.empty(count, self.values.dtype)
        self._mass: NDArray[Any] | None = None

    def refresh(self, order: I64, groups: I64) -> None:
        """Price the rows of the columns in the given groups anew, in one pass over the blocks."""
        from permsearch.kernels.swap import set_rows

        m = self._m
        size = max(1, _ROWS // m)
        batches = [groups[first : first + size] for first in range(0, len(groups), size)]
        rows = [order.reshape(-1, m)[part].ravel() for part in batches]
        base = [np.zeros(len(part), np.int64) for part in rows]
        for part in rows:
            self.values[part] = 0
        mass = np.zeros(len(order), self.values.dtype)
        for block in self._levels.blocks():
            if self._mass is None:
                mass += block.sum(axis=1, dtype=np.int64)
            held = self._device.hold(block)
            for index, part in enumerate(batches):
                self._add(block, held, order, part, rows[index], base[index])
        self._mass = mass if self._mass is None else self._mass
        for part, add in zip(rows, base, strict=True):
            add = add.astype(self.values.dtype)
            set_rows(self.values, self.own, part, self.values[part], add, self._mass, m)

    def _add(self, block: Any, held: Any, order: I64, groups: I64, rows: I64, base: I64) -> None:
        from permsearch.kernels.sad import padded_bytes
        from permsearch.kernels.swap import group_holes

        holes = padded_bytes(len(rows), block.shape[1])
        above = np.empty(len(rows))
        group_holes(block, order, groups, self._n, self._m, holes, above)
        base += 2 * above.astype(np.int64) + holes.sum(axis=1, dtype=np.int64)
        self.values[rows] += held.distances(holes)
