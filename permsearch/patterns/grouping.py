"""Cutting the columns of a tile into groups of M of which every row has at most N.

A depth-first search: the fullest column that is left gets its companions, all ways in turn. A row
that has as many entries as all groups can hold must have N in every group: over such rows a group
sums to a known number, and a hash that adds up finds the last companion at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Bits = NDArray[np.bool_]

_ATTEMPTS = 20_000  # groups looked at before the search gives up


def groupable(tile: Bits, count: int, n: int, m: int) -> bool:
    """Decide whether a tile's mask fits some grouping; true as well where the search gives up.

    Parameters
    ----------
    tile
        Shape (V, C), true = kept.
    count
        Columns that the tile keeps, a multiple of `m`.
    n, m
        Entries that a row keeps at most of every group, and columns of a group.
    """
    search = _search(tile, count, n, m)
    return search.done or search.attempts > _ATTEMPTS


def fitting_groups(tile: Bits, count: int, n: int, m: int) -> I64 | None:
    """Return columns as they stand in groups that a tile's mask fits, or None: none was found.

    Columns without entries fill the groups up; the lower index comes first.
    """
    search = _search(tile, count, n, m)
    if not search.done:
        return None
    found: I64 = search.columns[np.array(search.groups).ravel()]
    return found


def _search(tile: Bits, count: int, n: int, m: int) -> _Search:
    ones = tile.sum(axis=0)
    live = np.flatnonzero(ones)
    spare = np.flatnonzero(ones == 0)[: count - len(live)]
    columns = np.concatenate([live[np.argsort(-ones[live], kind="stable")], spare])
    entries = np.ascontiguousarray(tile.T[columns].astype(np.int16))
    slack = count // m * n - entries.sum(axis=0)
    search = _Search(columns.astype(np.int64), entries, slack, n, m)
    search.run()
    return search


@dataclass(slots=True)
class _Search:
    """The state of a search; `groups` holds places in `columns`."""

    columns: I64
    entries: NDArray[np.int16]  # (K, V)
    slack: NDArray[np.int64]  # entries that rows may fall short of, in all groups together
    n: int
    m: int
    groups: list[list[int]] = field(default_factory=list)
    attempts: int = 0
    done: bool = False
    hashes: NDArray[np.uint64] = field(init=False)
    target: int = field(init=False)

    def __post_init__(self) -> None:
        tight = self.slack == 0
        factors = np.random.default_rng(0).integers(1, 2**63, len(tight)).astype(np.uint64)
        factors[~tight] = 0
        # additions wrap, which does a hash no harm
        self.hashes = (self.entries.astype(np.uint64) * factors).sum(axis=1, dtype=np.uint64)
        self.target = int((factors * np.uint64(self.n)).sum(dtype=np.uint64))

    def run(self) -> None:
        """Search until all columns are grouped, nothing is left to try, or too much was tried."""
        if (self.slack < 0).any() or len(self.columns) % self.m:
            return
        whole = len(self.columns) // self.m
        left = np.arange(len(self.columns))
        waiting = [self._candidates(left)]
        lefts = [left]
        while waiting and self.attempts <= _ATTEMPTS:
            group = next(waiting[-1], None)
            if group is None:
                waiting.pop()
                lefts.pop()
                if self.groups:
                    self.slack = self.slack + self._short(self.groups.pop())
                continue
            self.groups.append(group)
            self.slack = self.slack - self._short(group)
            if len(self.groups) == whole:
                self.done = True
                return
            left = np.setdiff1d(lefts[-1], group, assume_unique=True)
            lefts.append(left)
            waiting.append(self._candidates(left))

    def _short(self, group: list[int]) -> NDArray[np.int64]:
        """Return what rows have less than they could in a group."""
        short: NDArray[np.int64] = self.n - self.entries[group].sum(axis=0, dtype=np.int64)
        return short

    def _candidates(self, left: I64) -> Iterator[list[int]]:
        """Yield the groups with the first column left that rows allow."""
        for group in self._extended([int(left[0])], left[1:]):
            self.attempts += 1
            short = self._short(group)
            if (short >= 0).all() and (short <= self.slack).all():
                yield group
            if self.attempts > _ATTEMPTS:
                return

    def _extended(self, group: list[int], rest: I64) -> Iterator[list[int]]:
        """Yield the groups that begin with these columns and go on with some of the rest."""
        missing = self.m - len(group)
        if missing == 0:
            yield group
            return
        counts = self.entries[group].sum(axis=0)
        rest = rest[(self.entries[rest] + counts <= self.n).all(axis=1)]
        if missing <= 2:
            yield from self._closed(group, rest, missing)
            return
        for at, column in enumerate(rest):
            yield from self._extended([*group, int(column)], rest[at + 1 :])

    def _closed(self, group: list[int], rest: I64, missing: int) -> Iterator[list[int]]:
        """Yield the groups whose hash is right once one or two columns have joined."""
        held = int(self.hashes[group].sum(dtype=np.uint64))
        need = np.uint64((self.target - held) % 2**64)
        own = self.hashes[rest]
        if missing == 1:
            yield from ([*group, int(column)] for column in rest[own == need])
            return
        ranked = np.argsort(own, kind="stable")
        sought = need - own
        first = np.searchsorted(own[ranked], sought, "left")
        last = np.searchsorted(own[ranked], sought, "right")
        for at in np.flatnonzero(last > first):
            for partner in np.sort(ranked[first[at] : last[at]]):
                if partner > at:
                    yield [*group, int(rest[at]), int(rest[partner])]
