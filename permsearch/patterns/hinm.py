"""Hierarchical N:M: tiles of V rows keep some column vectors, and N:M among those they keep."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import keep_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_outside, weight_from_taps
from permsearch.limits.effort import CHEAP, Effort
from permsearch.limits.rounding import up
from permsearch.limits.rows import row_top
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling
from permsearch.patterns.nm import NM
from permsearch.patterns.share import SHARE, checked_share, share_of, share_text


@dataclass(frozen=True, slots=True)
class HiNM:
    """Hierarchical N:M: per tile of `v` rows a share of the columns, and N:M among those.

    A tile keeps ``floor(kept * columns / m) * m`` of its column vectors and cuts them into groups
    of `m` in an order of its own; every row keeps `n` of each group.

    Parameters
    ----------
    v
        Rows of a tile. Kernels take 32, 64 and 128.
    kept
        Share of the columns that a tile keeps, in (0, 1].
    n, m
        Kept of every group of vectors.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Notes
    -----
    A weight (out, in, *k) is one matrix (out, in) per tap, each with tiles of its own. Orders of
    tiles, where they are arguments or results, have shape (prod(k) * out / v, columns kept): tap
    after tap, for each tile its columns as they stand in the groups. Since a tile may take any
    columns in any order, no order of the stored columns is needed; it matters where tiles are
    left to themselves, see `tile_orders`.

    References
    ----------
    Yu et al.: Toward efficient permutation for hierarchical N:M sparsity on GPUs,
    arXiv 2407.20496.

    Examples
    --------
    >>> str(HiNM(32, 0.5, 2, 4)), HiNM(32, 0.5, 2, 4).density
    ('hinm:32@0.5:2:4', 0.25)
    """

    v: int
    kept: float
    n: int
    m: int

    form: ClassVar[str] = "hinm:V@SHARE:N:M"
    text: ClassVar[re.Pattern[str]] = re.compile(
        r"hinm:([0-9]{1,9})@" + SHARE + r":([0-9]{1,9}):([0-9]{1,9})"
    )

    def __post_init__(self) -> None:
        keep_whole(self, "v", "V of hinm", 1, PatternError)
        object.__setattr__(self, "kept", checked_share(self.kept))
        inner = NM(self.n, self.m)
        object.__setattr__(self, "n", inner.n)
        object.__setattr__(self, "m", inner.m)

    @classmethod
    def from_match(cls, match: re.Match[str]) -> HiNM:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), float(match[2]), int(match[3]), int(match[4]))

    def __str__(self) -> str:
        return f"hinm:{self.v}@{share_text(self.kept)}:{self.n}:{self.m}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Rows share vectors; stored columns matter only to tiles that are left to themselves."""
        return frozenset({"rows", "cols"})

    @property
    def density(self) -> float:
        """Share of the vectors times N / M, before the vectors are rounded to groups."""
        return self.kept * self.n / self.m

    @property
    def tiling(self) -> tuple[int, int]:
        """Rows in tiles of `v`, any number of columns that leaves a group."""
        return self.v, 1

    def count(self, columns: int) -> int:
        """Return how many of so many columns a tile keeps: whole groups, no more than the share.

        Examples
        --------
        >>> HiNM(32, 0.5, 2, 4).count(100)
        48
        """
        return share_of(self.kept, columns) // self.m * self.m

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless tiles cover the weight and keep a group."""
        check_tiling(self, shape, self.tiling)
        if self.count(shape[1]) == 0:
            raise PatternError(
                f"{self.kept} of {shape[1]} columns holds no group of {self.m} for {self}: keep a "
                f"larger share, or choose another pattern."
            )

    def tile_orders(self, scores: Scores) -> NDArray[np.int64]:
        """Return each tile's columns of the largest sum, in stored order.

        Of equal sums the lower index stays. Where all that a tile holds has the pattern already,
        such as in a weight that was masked, its columns are grouped so that all of it stays.

        Returns
        -------
        int64 array, shape (prod(k) * out / v, columns kept)
        """
        from permsearch.patterns.grouping import fitting_groups

        self.check(scores.shape)
        rows = taps_outside(scores)
        tiles = rows.reshape(-1, self.v, rows.shape[1])
        count = self.count(rows.shape[1])
        sums = tiles.sum(axis=1, dtype=np.float64)
        top = np.argsort(-sums, axis=1, kind="stable")[:, :count]
        orders: NDArray[np.int64] = np.sort(top, axis=1).astype(np.int64)
        for t in self._sparse_tiles(tiles != 0):
            own = fitting_groups(tiles[t] != 0, count, self.n, self.m)
            if own is not None:
                orders[t] = own
        return orders

    def _sparse_tiles(self, nonzero: Mask) -> list[int]:
        """Return the tiles in which no more is left than the pattern could keep."""
        count = self.count(nonzero.shape[2])
        few = nonzero.any(axis=1).sum(axis=1) <= count
        thin = (nonzero.sum(axis=2) <= count // self.m * self.n).all(axis=1)
        return [int(t) for t in np.flatnonzero(few & thin)]

    def _groups(self, scores: Scores, tiles: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the columns of every group, int64 (tiles, groups, m), checked."""
        self.check(scores.shape)
        own = self.tile_orders(scores) if tiles is None else np.asarray(tiles)
        count = self.count(scores.shape[1])
        shape = (scores.size // scores.shape[1] // self.v, count)
        if own.shape != shape or own.dtype.kind not in "iu":
            raise PatternError(
                f"the tiles' orders for {self} are integers of shape {shape}, got {own.dtype} "
                f"{own.shape}."
            )
        ordered = np.sort(own, axis=1)
        repeated = bool((ordered[:, 1:] == ordered[:, :-1]).any())
        if repeated or ordered[:, 0].min() < 0 or ordered[:, -1].max() >= scores.shape[1]:
            raise PatternError(
                f"a tile's order for {self} must name {count} different columns of "
                f"0..{scores.shape[1] - 1}."
            )
        return own.astype(np.int64).reshape(len(own), -1, self.m)

    def keep(self, scores: Scores, tiles: NDArray[np.int64] | None = None) -> Mask:
        """Return the best mask for the tiles' own orders, by default those of `tile_orders`."""
        groups = self._groups(scores, tiles)
        rows = taps_outside(scores)
        mask = np.zeros(rows.shape, dtype=np.bool_)
        for t, own in enumerate(groups):
            strip = slice(t * self.v, (t + 1) * self.v)
            inside = NM(self.n, self.m).keep(rows[strip][:, own.ravel()])
            mask[strip, own.ravel()] = inside
        return weight_from_taps(mask, scores.shape)

    def retained(self, scores: Scores, tiles: NDArray[np.int64] | None = None) -> float:
        """Return the sum of the scores that this mask keeps, in float64."""
        groups = self._groups(scores, tiles)
        rows = taps_outside(scores)
        inner = NM(self.n, self.m)
        return sum(
            inner.retained(rows[t * self.v : (t + 1) * self.v][:, own.ravel()])
            for t, own in enumerate(groups)
        )

    def accepts(self, mask: Mask) -> bool:
        """Decide whether tiles can be grouped so that the mask is one of the pattern's.

        Too many columns in a tile or entries in a row are refused. Whether those there are can be
        cut into groups is found out by a search, which gives up after a number of steps: where it
        does, the mask is accepted. Masks whose rows are full, as those of `keep` are, leave the
        search little choice from 16 rows a tile on, and it does not give up.
        """
        from permsearch.patterns.grouping import groupable

        if mask.ndim < 2 or mask.shape[0] % self.v or not self.count(mask.shape[1]):
            return False
        tiles = taps_outside(mask).reshape(-1, self.v, mask.shape[1])
        if len(self._sparse_tiles(tiles)) < len(tiles):
            return False
        count = self.count(mask.shape[1])
        return all(groupable(tile, count, self.n, self.m) for tile in tiles)

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield what rows keep at most, and what few patterns of vectors allow them."""
        del free  # tiles take any columns whatever may be reordered
        rows = taps_outside(scores)
        count = self.count(rows.shape[1])
        yield up(row_top(rows, count // self.m * self.n)), "row"
        if effort.spectral(rows.shape):
            from permsearch.limits.spectral import live_spectral

            yield live_spectral(rows, self.v, count, count // self.m * self.n), "spectral"
