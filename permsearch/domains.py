"""Which orders of an axis are legal.

Every domain is described by two facts, and whatever needs to know more derives it from them:
its *segments* (lengths of the runs of positions that items never leave) and its *width*
(how many consecutive items move as one unit).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from permsearch.checks import keep_whole, whole
from permsearch.errors import OrderError
from permsearch.orders import Order, as_order, expand, identity


@runtime_checkable
class Domain(Protocol):
    """A set of legal orders of one axis: `Free`, `Segments`, `Units` or `Fixed`, or your own."""

    @property
    def segments(self) -> tuple[int, ...]:
        """Lengths of the runs of positions that items stay in; they sum to the size."""

    @property
    def width(self) -> int:
        """Number of consecutive items that move together; it divides every segment."""


@dataclass(frozen=True, slots=True)
class Free:
    """Every order of `count` items.

    Parameters
    ----------
    count
        The size of the axis, an integer >= 1, else OrderError.
    """

    count: int

    def __post_init__(self) -> None:
        keep_whole(self, "count", "the size of a free axis", 1, OrderError)

    @property
    def segments(self) -> tuple[int, ...]:
        """One run: the whole axis."""
        return (self.count,)

    @property
    def width(self) -> int:
        """Items move one by one."""
        return 1


@dataclass(frozen=True, slots=True)
class Segments:
    """Items move within consecutive segments only (the groups of a grouped convolution).

    The weight of a grouped convolution, ``(out, in / groups, *k)``, holds each group's own input
    channels side by side, so a plain `search` of it has all groups share one order. For orders of
    their own let the axis be all input channels, one segment a group, and give one `Term` for
    each group's rows, or a single one of ``torch.cat(w.chunk(groups, 0), 1)``.

    Parameters
    ----------
    lengths
        Of the segments one after the other, integers >= 1, else OrderError; their sum is the size
        of the axis.

    Examples
    --------
    >>> import numpy as np, permsearch as ps
    >>> weight = ps.instances.gaussian(32, 8 * 9, seed=0).reshape(32, 8, 3, 3)
    >>> groups = np.split(weight, 4)  # of 8 input channels each
    >>> side_by_side = np.concatenate(groups, axis=1)
    >>> segments = ps.Segments([8] * 4)
    >>> r = ps.search(side_by_side, "2:4", permute={"cols": segments}, stop=ps.MaxSteps(50))
    >>> [sorted(set(part // 8)) for part in np.split(r.cols, 4)] == [[0], [1], [2], [3]]
    True
    >>> mask = np.concatenate(np.split(r.mask, 4, axis=1))
    >>> mask.shape == weight.shape
    True
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.lengths, Iterable):
            raise OrderError(f"a segmented axis takes a list of lengths, got {self.lengths!r}.")
        lengths = (whole("the length of a segment", n, 1, OrderError) for n in self.lengths)
        object.__setattr__(self, "lengths", tuple(lengths))
        if not self.lengths:
            raise OrderError("a segmented axis needs at least one segment.")

    @property
    def segments(self) -> tuple[int, ...]:
        """The lengths as given."""
        return self.lengths

    @property
    def width(self) -> int:
        """Items move one by one."""
        return 1


@dataclass(frozen=True, slots=True)
class Units:
    """Whole units of `unit` consecutive items move, their inside stays (attention heads).

    Parameters
    ----------
    count, unit
        Units, and items of each, integers >= 1, else OrderError; their product is the size of the
        axis.
    """

    count: int
    unit: int

    def __post_init__(self) -> None:
        keep_whole(self, "count", "the number of units", 1, OrderError)
        keep_whole(self, "unit", "the width of a unit", 1, OrderError)

    @property
    def segments(self) -> tuple[int, ...]:
        """One run: the whole axis."""
        return (self.count * self.unit,)

    @property
    def width(self) -> int:
        """Items in a unit."""
        return self.unit


@dataclass(frozen=True, slots=True)
class Fixed:
    """Nothing moves (a model's inputs and outputs).

    Parameters
    ----------
    count
        The size of the axis, an integer >= 1, else OrderError.
    """

    count: int

    def __post_init__(self) -> None:
        keep_whole(self, "count", "the size of a fixed axis", 1, OrderError)

    @property
    def segments(self) -> tuple[int, ...]:
        """One run: the whole axis."""
        return (self.count,)

    @property
    def width(self) -> int:
        """The whole axis is one unit."""
        return self.count


def size_of(domain: Domain) -> int:
    """Return the number of items of a domain."""
    return sum(domain.segments)


def is_fixed(domain: Domain) -> bool:
    """Decide whether the identity is the only legal order."""
    return all(length == domain.width for length in domain.segments)


def contains(domain: Domain, order: ArrayLike) -> bool:
    """Decide whether `order` is a legal order of `domain`."""
    try:
        checked = as_order(order, size_of(domain))
    except OrderError:
        return False
    start = 0
    for length in domain.segments:
        part = checked[start : start + length] - start
        units = part[:: domain.width] // domain.width
        if part.min() < 0 or part.max() >= length:
            return False
        if not np.array_equal(np.sort(units), np.arange(units.size)):
            return False
        if not np.array_equal(part, expand(units, domain.width)):
            return False
        start += length
    return True


def sample(domain: Domain, rng: np.random.Generator) -> Order:
    """Return a legal order drawn uniformly at random."""
    order = identity(size_of(domain))
    start = 0
    for length in domain.segments:
        units = rng.permutation(length // domain.width)
        order[start : start + length] = start + expand(units, domain.width)
        start += length
    return order
