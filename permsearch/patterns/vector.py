"""Vector-wise sparsity: the pattern of Shfl-BW once its rows are free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import keep_whole
from permsearch.errors import PatternError
from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.limits.effort import CHEAP, Effort
from permsearch.patterns.base import Axis, Mask, Scores, check_tiling
from permsearch.patterns.share import SHARE, checked_share, share_of, share_text
from permsearch.patterns.top import top_mask, top_sum


@dataclass(frozen=True, slots=True)
class VectorWise:
    """Column vectors of `v` consecutive rows, of which a share stays.

    A convolution (out, in, *k) is the matrix out x (*k, in): every tap has vectors of its own.

    Parameters
    ----------
    v
        Rows of a vector. Published kernels take 16, 32, 64 and 128; masks may have any.
    kept
        Share of the vectors that stay, in (0, 1]; their number is rounded down.
    balance
        ``layer``: the best vectors of the whole weight stay. ``group``: every group of `v` rows
        keeps as many as the others, so that a kernel that handles a group per block of threads
        has equal work for each; never more is retained than with ``layer``.

    Raises
    ------
    PatternError
        When a number is of another kind or lies outside of its range.

    Examples
    --------
    >>> import numpy as np
    >>> VectorWise(2, 0.5).keep(np.array([[1.0, 4.0], [2.0, 0.0]]))
    array([[False,  True],
           [False,  True]])
    >>> str(VectorWise(32, 0.25)), str(VectorWise(32, 0.25, "group"))
    ('vector:32@0.25', 'vector:32@0.25/group')

    References
    ----------
    Huang, Li, Wang, et al.: Shfl-BW: accelerating deep neural network inference with tensor-core
    aware weight pruning, DAC 2022, arXiv 2203.05016.
    """

    v: int
    kept: float
    balance: Literal["layer", "group"] = "layer"

    form: ClassVar[str] = "vector:V@SHARE[/group]"
    text: ClassVar[re.Pattern[str]] = re.compile(
        r"vector:([0-9]{1,9})@" + SHARE + r"(?:/(layer|group))?"
    )

    def __post_init__(self) -> None:
        keep_whole(self, "v", "V of vector", 1, PatternError)
        object.__setattr__(self, "kept", checked_share(self.kept))
        if self.balance not in ("layer", "group"):
            raise PatternError(f"balance must be 'layer' or 'group', got {self.balance!r}.")

    @classmethod
    def from_match(cls, match: re.Match[str]) -> VectorWise:
        """Return the pattern that a match of `text` stands for."""
        return cls(int(match[1]), float(match[2]), "group" if match[3] == "group" else "layer")

    def __str__(self) -> str:
        by_group = "/group" if self.balance == "group" else ""
        return f"vector:{self.v}@{share_text(self.kept)}{by_group}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Rows share vectors; columns are kept one by one."""
        return frozenset({"rows"} if self.v > 1 and self.kept < 1 else ())

    @property
    def density(self) -> float:
        """The share kept."""
        return self.kept

    @property
    def tiling(self) -> tuple[int, int]:
        """Rows in groups of `v`, any number of columns."""
        return self.v, 1

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError unless groups of rows cover the weight and a vector stays."""
        check_tiling(self, shape, self.tiling)
        self.count(shape)

    def count(self, shape: tuple[int, ...]) -> int:
        """Return how many vectors of a weight of this shape stay: of all, or of every group.

        Raises
        ------
        PatternError
            When the share is less than one vector.
        """
        across = int(np.prod(shape[1:]))
        vectors = across if self.balance == "group" else shape[0] // self.v * across
        kept = share_of(self.kept, vectors)
        if kept == 0:
            where = "each group" if self.balance == "group" else "the whole weight"
            raise PatternError(
                f"{self} keeps none of the {vectors} vectors of {where} of shape {tuple(shape)}: "
                f"a share of {1 / vectors:.4g} is the least that keeps one."
            )
        return kept

    def sums(self, scores: Scores) -> NDArray[np.float64]:
        """Return the sum of each vector, float64, shape (out / v, prod(k) * in)."""
        matrix = taps_as_columns(scores)
        total: NDArray[np.float64] = matrix.reshape(-1, self.v, matrix.shape[1]).sum(
            axis=1, dtype=np.float64
        )
        return total

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the vectors with the largest sums; ties go to the lower index."""
        self.check(scores.shape)
        sums, count = self.sums(scores), self.count(scores.shape)
        if self.balance == "group":
            chosen = np.zeros(sums.shape, dtype=np.bool_)
            best = np.argsort(-sums, axis=1, kind="stable")[:, :count]
            np.put_along_axis(chosen, best, values=True, axis=1)
        else:
            chosen = top_mask(sums, count)
        return weight_from_columns(chosen.repeat(self.v, axis=0), scores.shape)

    def retained(self, scores: Scores) -> float:
        """Return the sum of the vectors kept, in float64."""
        self.check(scores.shape)
        sums, count = self.sums(scores), self.count(scores.shape)
        if self.balance == "layer":
            return top_sum(sums, count)
        drop = sums.shape[1] - count
        return float(np.partition(sums, drop, axis=1)[:, drop:].sum()) if drop else sums.sum()

    def accepts(self, mask: Mask) -> bool:
        """Decide whether no more vectors than the share, of all or of a group, have an entry."""
        try:
            self.check(mask.shape)
        except PatternError:
            return False
        matrix = taps_as_columns(mask)
        used = matrix.reshape(-1, self.v, matrix.shape[1]).any(axis=1)
        counts = used.sum(axis=1) if self.balance == "group" else used.sum()
        return bool(np.all(counts <= self.count(mask.shape)))

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield limits from sorted columns and rows, and from singular values up to some size."""
        from permsearch.limits.rounding import up
        from permsearch.limits.rows import row_top, vector_top
        from permsearch.limits.spectral import vector_spectral

        if not free & self.axes:
            yield up(self.retained(scores)), "exact"
            return
        matrix, count = taps_as_columns(scores), self.count(scores.shape)
        groups, by_group = len(matrix) // self.v, self.balance == "group"
        whole = count * groups if by_group else count
        yield up(vector_top(matrix, self.v, whole)), "row"
        if by_group:
            yield up(row_top(matrix, count)), "row"
        if effort.spectral(matrix.shape):
            yield vector_spectral(matrix, self.v, whole, balanced=by_group), "spectral"
        if effort.listing(len(matrix), self.v):
            from permsearch.limits.partition import vector_partition

            yield vector_partition(matrix, self.v, whole, balanced=by_group), "partition"
