"""What a sparsity pattern is, and what all of them share.

A pattern is a value. Its text, ``str(pattern)``, and `permsearch.parse_pattern` are inverse.
Masks are boolean, true = kept, and have the shape of the weight they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import PatternError
from permsearch.limits.effort import CHEAP, Effort

Axis: TypeAlias = Literal["rows", "cols"]
Scores: TypeAlias = NDArray[np.floating[Any]]
Mask: TypeAlias = NDArray[np.bool_]


@runtime_checkable
class Pattern(Protocol):
    """What a sparsity pattern has to offer to be searched for.

    Scores are floats (out, in, *k), finite and >= 0; masks are boolean and of the same shape.
    `permsearch.testing.check_pattern` tries one against what is promised here.
    """

    @property
    def axes(self) -> frozenset[Axis]:
        """Axes whose order changes the best mask's score."""

    @property
    def density(self) -> float:
        """Share of the entries that a mask keeps."""

    def check(self, shape: tuple[int, ...]) -> None:
        """Raise PatternError when arrays of this shape cannot carry the pattern."""

    def keep(self, scores: Scores) -> Mask:
        """Return the mask of the highest retained score; ties go to the lower index."""

    def retained(self, scores: Scores) -> float:
        """Return the sum of the scores that the best mask keeps, in float64."""

    def accepts(self, mask: Mask) -> bool:
        """Decide whether a mask is one of the pattern's (it may keep less than allowed)."""


@runtime_checkable
class Tiled(Protocol):
    """A pattern whose tiles have to cover a weight: `check` refuses what they do not."""

    @property
    def tiling(self) -> tuple[int, int]:
        """Number of rows and of columns that the axes must be multiples of."""


@runtime_checkable
class Limited(Protocol):
    """A pattern that knows more about what no order can exceed than the share it keeps."""

    def limits(
        self, scores: Scores, free: frozenset[Axis], effort: Effort = CHEAP
    ) -> Iterator[tuple[float, str]]:
        """Yield limits and their kinds, as many as an effort allows.

        No order of the free axes retains more than any of them.
        """


@runtime_checkable
class Private(Protocol):
    """A pattern whose tiles keep orders of their own: see `permsearch.SearchResult.tiles`.

    `keep` and `retained` take them as a second argument; without it they find good ones.
    """

    def tile_orders(self, scores: Scores) -> NDArray[np.int64]:
        """Return the tiles' own orders that `keep` uses where none are given."""

    def keep(self, scores: Scores, tiles: NDArray[np.int64] | None = None) -> Mask:
        """Return the best mask for the tiles' own orders."""

    def retained(self, scores: Scores, tiles: NDArray[np.int64] | None = None) -> float:
        """Return the sum of the scores that this mask keeps, in float64."""


def check_rank(shape: tuple[int, ...]) -> None:
    """Raise PatternError unless a weight of this shape has rows and columns."""
    if len(shape) < 2:
        raise PatternError(
            f"a weight needs at least two axes (out, in), got shape {tuple(shape)}; "
            "reshape it to a matrix."
        )
    if 0 in shape:
        raise PatternError(f"a weight of shape {tuple(shape)} is empty; leave it out.")


def check_tiling(pattern: Pattern, shape: tuple[int, ...], tiling: tuple[int, int]) -> None:
    """Raise PatternError unless tiles of that many rows and columns cover a weight."""
    check_rank(shape)
    for axis, size, unit in zip(("row", "column"), shape[:2], tiling, strict=True):
        if size == 1 and unit > 1:  # such as a depthwise convolution's one input channel
            raise PatternError(
                f"1 {axis} does not split into groups of {unit} for {pattern} and has no order: "
                "leave the weight out."
            )
        if size % unit:
            raise PatternError(
                f"{size} {axis}{'s do' if size > 1 else ' does'} not split into groups of {unit} "
                f"for {pattern}: pass pad=True "
                f"to add {counted(-size % unit, axis)}, or choose another pattern."
            )


def padded_shape(pattern: Pattern, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with as many zero rows and columns appended as the pattern needs."""
    if not isinstance(pattern, Tiled):
        return shape
    rows, cols = pattern.tiling
    return (shape[0] + -shape[0] % rows, shape[1] + -shape[1] % cols, *shape[2:])


def counted(count: int, axis: str) -> str:
    """Return how people say so many zero rows or columns."""
    return f"1 zero {axis}" if count == 1 else f"{count} zero {axis}s"
