"""Scores as a stream of rows that can be read again, and what a first look at them tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from permsearch.patterns import Scores

_SAMPLE = 1 << 20  # entries of the sample that the clip is chosen from, about
_LEAST = 16  # rows of it, where there are as many


class RowSource(Protocol):
    """The rows of a stack: everything that is to share one order of its columns.

    Attributes
    ----------
    columns, rows
        Size of the stack.
    """

    @property
    def columns(self) -> int:
        """Number of columns."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def chunks(self) -> Iterator[Scores]:
        """Yield the scores from the first row to the last, shape (r, columns), >= 0, anew."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayRows:
    """Rows of matrices in memory, laid on top of each other; a `RowSource`."""

    parts: Sequence[Scores]
    height: int = 1 << 14

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.parts[0].shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(len(part) for part in self.parts)

    def chunks(self) -> Iterator[Scores]:
        """Yield views of at most `height` rows."""
        for part in self.parts:
            for first in range(0, len(part), self.height):
                yield part[first : first + self.height]


@dataclass(frozen=True, slots=True, eq=False)
class SampledRows:
    """Every k-th row of a source, counted over the whole stream; a `RowSource`."""

    whole: RowSource
    stride: int

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.whole.columns

    @property
    def rows(self) -> int:
        """Number of rows that are left."""
        return -(-self.whole.rows // self.stride)

    def chunks(self) -> Iterator[Scores]:
        """Yield what is left of each chunk."""
        seen = 0
        for chunk in self.whole.chunks():
            yield np.ascontiguousarray(chunk[-seen % self.stride :: self.stride])
            seen += len(chunk)


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What a first pass over the rows finds.

    Attributes
    ----------
    total
        Sum of all scores.
    sample
        Shape (S, columns): every k-th row, counted over the whole stream.
    """

    total: float
    sample: Scores


def added(total: float, chunk: Scores) -> float:
    """Return a sum with the scores of a chunk, row after row, wherever chunks are cut."""
    for row in chunk.sum(axis=1, dtype=np.float64).tolist():
        total += row
    return total


def survey(source: RowSource) -> Survey:
    """Return the sum and a sample of the rows; neither depends on how they are cut into chunks."""
    stride = max(1, min(source.rows * source.columns // _SAMPLE, source.rows // _LEAST))
    total, seen = 0.0, 0
    kept = []
    for chunk in source.chunks():
        total = added(total, chunk)
        kept.append(np.array(chunk[-seen % stride :: stride]))
        seen += len(chunk)
    return Survey(total, np.concatenate(kept))
