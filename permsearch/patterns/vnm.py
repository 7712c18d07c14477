"""V:N:M sparsity: V x M blocks have four live columns, of which every row keeps two."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permsearch.checks import keep_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_outside, weight_from_taps
from permsearch.limits.effort import CHEAP, Effort
from permsearch.limits.rounding import up
from permsearch.limits.rows import row_top
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling

LIVE = 4
KEPT = 2
MAX_M = 32


@dataclass(frozen=True, slots=True)
class VNM:
    """V:N:M sparsity (VENOM): in blocks of V x M four live columns, of which each row keeps two.

    Parameters
    ----------
    v
        Rows of a block, which share its live columns. Kernels take 16, 32, 64 and 128.
    n
        Entries that a row keeps of the four live columns: 2, what sparse tensor cores do.
    m
        Columns of a block, 4 <= m <= 32.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Notes
    -----
    A weight (out, in, *k) is one matrix (out, in) per tap.

    References
    ----------
    Castro et al.: VENOM: A vectorized N:M format for unleashing the power of sparse tensor cores,
    SC 2023.

    Examples
    --------
    >>> str(VNM(64, 2, 8)), VNM(64, 2, 8).density
    ('64:2:8', 0.25)
    """

    v: int
    n: int
    m: int

    form: ClassVar[str] = "V:N:M"
    text: ClassVar[re.Pattern[str]] = re.compile(r"([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})")

    def __post_init__(self) -> None:
        for name in ("v", "n", "m"):
            keep_whole(self, name, f"{name.upper()} of V:N:M", 1, PatternError)
        if self.n != KEPT:
            raise PatternError(
                f"V:N:M keeps N = 2 of four live columns, which is what sparse tensor cores "
                f"multiply; got {self}. For other N use N:M, such as '{self.n}:{self.m}'."
            )
        if not LIVE <= self.m <= MAX_M:
            raise PatternError(f"M must lie in {LIVE}..{MAX_M}, got {self}.")

    @classmethod
    def from_match(cls, match: re.Match[str]) -> VNM:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.v}:{self.n}:{self.m}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Columns compete; rows matter where they share a choice of live columns."""
        return frozenset({"rows", "cols"} if self.v > 1 and self.m > LIVE else {"cols"})

    @property
    def density(self) -> float:
        """2 / M."""
        return self.n / self.m

    @property
    def tiling(self) -> tuple[int, int]:
        """Rows in strips of `v`, columns in groups of `m`."""
        return self.v, self.m

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless blocks cover the weight."""
        check_tiling(self, shape, self.tiling)

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the best live columns, found by trying all sets of four.

        Of equal sets the first in lexicographic order stays, of equal scores the one further left.
        """
        from permsearch.kernels.vnm import best_live, mark_two

        self.check(scores.shape)
        rows = tap_rows(scores)
        live, _ = best_live(rows, self.v, self.m)
        mask = np.zeros(rows.shape, dtype=np.bool_)
        mark_two(rows, self.v, live, mask)
        return weight_from_taps(mask, scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return what the best live columns of every block keep, in float64."""
        from permsearch.kernels.vnm import best_live

        self.check(scores.shape)
        _, value = best_live(tap_rows(scores), self.v, self.m)
        return float(value.sum())

    def accepts(self, mask: Mask) -> bool:
        """Decide whether blocks have at most four live columns, and rows at most two of them."""
        if mask.ndim < 2 or mask.shape[0] % self.v or mask.shape[1] % self.m:
            return False
        blocks = taps_outside(mask).reshape(-1, self.v, mask.shape[1] // self.m, self.m)
        live = blocks.any(axis=1).sum(axis=-1) <= LIVE
        return bool(live.all() and (blocks.sum(axis=-1) <= self.n).all())

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield what rows keep at most, and what few patterns of live columns allow them."""
        rows = taps_outside(scores)
        groups = rows.shape[1] // self.m
        if "cols" in free:
            yield up(row_top(rows, KEPT * groups)), "row"
        else:  # every group of columns stays as it is
            yield up(row_top(rows.reshape(-1, self.m), KEPT)), "row"
        if effort.spectral(rows.shape) and "rows" in self.axes:
            from permsearch.limits.spectral import live_spectral

            yield live_spectral(rows, self.v, LIVE * groups, KEPT * groups), "spectral"


def tap_rows(scores: Scores) -> Scores:
    """Return the matrix of the taps, one after another, in memory order and as kernels take it.

    Floats other than float32 and float64 become the next larger of these.
    """
    kind = np.float32 if scores.dtype.itemsize <= 4 else np.float64
    return np.ascontiguousarray(taps_outside(scores), dtype=kind)
