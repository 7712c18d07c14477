"""Terms without numbers: which columns of a weight one order reaches, and how to lay them out.

A weight that is to carry an N:M pattern is cut into the pieces of its columns that one group
reorders. A piece becomes a term on the group's variable where the pattern's groups of columns are
runs of the variable's items. Other patterns need a whole axis that one group orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from permsearch.patterns import NM, Pattern, Scores
from pruning.axes import Axis, flat, leaves, parts_of, size
from pruning.groups import Orbit
from pruning.layers import rows_dim
from pruning.network import Network

Positions: TypeAlias = NDArray[np.int64]
Fit: TypeAlias = Literal["runs", "whole groups", "straddles"]


class Layout(Protocol):
    """Takes what a term scores of a weight's scores."""

    @property
    def by_rows(self) -> bool:
        """Whether rows of a matrix can be laid out some at a time."""

    def entries(self, shape: Sequence[int]) -> int:
        """Return how many scores it takes of a weight of this shape."""

    def __call__(self, scores: Scores, /) -> Scores:
        """Return scores (out, in, *k)."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A term to be: its variables, and what to take of the weight's scores.

    Attributes
    ----------
    loose
        Groups that change the value although the term does not know them: it holds only while
        they stay.
    """

    tensor: str
    pattern: Pattern
    take: Layout
    rows: str | None = None
    cols: str | None = None
    loose: frozenset[str] = frozenset()

    @property
    def variables(self) -> tuple[str, ...]:
        """The groups whose orders the term scores."""
        named = (("rows", self.rows), ("cols", self.cols))
        return tuple(
            dict.fromkeys(n for axis, n in named if n is not None and axis in self.pattern.axes)
        )


def drafts(
    network: Network, tensor: str, dim: int, pattern: Pattern
) -> tuple[list[Draft], tuple[str, ...]]:
    """Return the terms of one weight whose columns are dimension `dim`, and what hinders others."""
    if not isinstance(pattern, NM):
        return _whole(network, tensor, dim, pattern)
    found: list[Draft] = []
    reasons: dict[str, None] = {}
    count = size(network.axes[tensor][dim])
    left, loose = np.ones(count, np.bool_), frozenset[str]()
    for positions, factors in pieces(network.axes[tensor][dim]):
        piece = _Piece(network, tensor, dim, positions, factors)
        draft, why, others = piece.draft(pattern)
        if draft is not None:
            found.append(draft)
            left[positions] = False
        else:
            reasons[why] = None
            loose |= others
    if left.any():
        rest = _Rest(dim, left)
        found.append(Draft(tensor, pattern, rest, loose=loose))
    return found, tuple(reasons)


@dataclass(frozen=True, slots=True, eq=False)
class _Rest:
    """Takes the columns that no order reaches."""

    dim: int
    left: NDArray[np.bool_]

    @property
    def by_rows(self) -> bool:
        """Whether rows of a matrix can be laid out some at a time."""
        return self.dim == 1

    def entries(self, shape: Sequence[int]) -> int:
        """Return how many scores it takes of a weight of this shape."""
        return prod(shape) // shape[self.dim] * int(self.left.sum())

    def __call__(self, scores: Scores) -> Scores:
        rest: Scores = np.moveaxis(scores, self.dim, -1)[..., self.left]
        return rest.reshape(-1, int(self.left.sum()))


def pieces(of: Axis, positions: Positions | None = None) -> Iterator[tuple[Positions, Axis]]:
    """Yield an axis as products of leaves: positions in the shape of the leaves, and the leaves."""
    if positions is None:
        positions = np.arange(size(of), dtype=np.int64)
    product = flat(of)
    shaped = positions.reshape([atom.size for atom in product])
    index = next((at for at, atom in enumerate(product) if atom.parts is not None), None)
    if index is None:
        yield shaped, product
        return
    start = 0
    for part in parts_of(product[index]):
        taken = np.take(shaped, range(start, start + size(part)), axis=index)
        yield from pieces(product[:index] + part + product[index + 1 :], taken)
        start += size(part)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """A run of a weight's columns that is a product of leaves."""

    network: Network
    tensor: str
    dim: int
    positions: Positions
    factors: Axis

    def draft(self, pattern: NM) -> tuple[Draft | None, str, frozenset[str]]:
        """Return the piece's term, or why no order can help it, and what must not move then."""
        chosen: Draft | None = None
        reasons, loose = self._pins(), set()
        for name, orbit in self.network.orbits.items():
            if not set(orbit.leaves).intersection(self.factors):
                continue
            found = self._placed(name, orbit, pattern)
            if isinstance(found, Draft) and chosen is None:
                chosen = found
                continue
            why, harmless = found if isinstance(found, tuple) else ("", False)
            reasons += [why] if why else []
            loose |= set() if harmless else {name}
        others = frozenset(loose)
        if chosen is None:
            return None, "; ".join(reasons) or "its columns are told apart one by one", others
        told = Draft(self.tensor, pattern, chosen.take, cols=chosen.cols, loose=others)
        return told, "", others

    def _pins(self) -> list[str]:
        pinned = (leaf for leaf in self.factors if leaf.pins)
        return [f"{leaf.label or 'axis'} stays: {next(iter(leaf.pins))}" for leaf in pinned]

    def _placed(self, name: str, orbit: Orbit, pattern: NM) -> Draft | tuple[str, bool]:
        """Return a term on a group, or what is wrong and whether the group changes nothing."""
        places = self._places(orbit)
        if places is None:
            return f"{name} cannot be read off this weight alone", False
        columns, outside = places
        laid = np.moveaxis(self.positions, columns, range(-len(columns), 0))
        runs = laid.reshape(-1, int(np.prod(laid.shape[laid.ndim - len(columns) :])))
        fit = _fit(runs, pattern.m)
        if fit == "runs":
            take = _Columns(self.dim, runs, self._outer(orbit, outside))
            return Draft(self.tensor, pattern, take, cols=name)
        if fit == "whole groups":
            text = f"{name} moves whole groups of {pattern.m} columns, which changes nothing"
            return text, True
        return f"groups of {pattern.m} columns straddle the items of {name}", False

    def _outer(self, orbit: Orbit, outside: list[tuple[int, int]]) -> _Outer | None:
        """Return plain numbers that say how to lay blocks of another dimension out, if any."""
        if not outside:
            return None
        at, factor = outside[0]
        sizes = tuple(atom.size for atom in flat(self.network.axes[self.tensor][at]))
        return _Outer(at, sizes, factor, size(orbit.within))

    def _places(self, orbit: Orbit) -> tuple[list[int], list[tuple[int, int]]] | None:
        """Return the factors of a piece that an orbit acts on, and those in other dimensions."""
        columns, outside = [], []
        for leaf in orbit.within:
            if self.factors.count(leaf) == 1:
                columns.append(self.factors.index(leaf))
                continue
            found = [
                (at, flat(of).index(leaf))
                for at, of in enumerate(self.network.axes[self.tensor])
                if at != self.dim and leaf in flat(of)
            ]
            if len(found) != 1:
                return None
            outside.append(found[0])
        if any(self.factors.count(leaf) != 1 for leaf in orbit.leaves):
            return None
        return columns + [self.factors.index(leaf) for leaf in orbit.leaves], outside


def _fit(runs: Positions, m: int) -> Fit:
    """Tell how the items of a group lie in a pattern's groups of columns."""
    if runs.shape[1] % m == 0:
        groups = (runs // m).reshape(len(runs), -1, m)
        if (groups == groups[..., :1]).all():
            return "runs"
    owners: dict[int, set[int]] = {}
    for run in runs // m:
        for item, group in enumerate(run.tolist()):
            owners.setdefault(group, set()).add(item)
    return "whole groups" if all(len(items) == 1 for items in owners.values()) else "straddles"


@dataclass(frozen=True, slots=True)
class _Outer:
    """Where the blocks of a group lie in another dimension than its items."""

    dim: int
    sizes: tuple[int, ...]
    factor: int
    blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Lays scores out with the items of a group as columns and all else as rows."""

    dim: int
    runs: Positions
    outer: _Outer | None

    @property
    def by_rows(self) -> bool:
        """Whether rows of a matrix can be laid out some at a time."""
        return self.outer is None and self.dim == 1

    def entries(self, shape: Sequence[int]) -> int:
        """Return how many scores it takes of a weight of this shape."""
        return prod(shape) // shape[self.dim] * self.runs.size

    def __call__(self, scores: Scores) -> Scores:
        if self.outer is None:
            last = np.moveaxis(scores, self.dim, -1)
            first, count = int(self.runs.flat[0]), self.runs.size
            if np.array_equal(self.runs.ravel(), np.arange(first, first + count)):
                taken = last[..., first : first + count]  # a view, where that can be
            else:
                taken = last[..., self.runs]
            matrix: Scores = taken.reshape(-1, self.runs.shape[1])
            return matrix
        moved = np.moveaxis(scores, [self.outer.dim, self.dim], [0, -1])
        split = moved.reshape(*self.outer.sizes, *moved.shape[1:])
        front = np.moveaxis(split, self.outer.factor, -2)[..., self.runs]
        laid = np.moveaxis(front, -3, -2).reshape(-1, self.outer.blocks, self.runs.shape[1])
        return laid.reshape(-1, self.outer.blocks * self.runs.shape[1])


def _whole(
    network: Network, tensor: str, dim: int, pattern: Pattern
) -> tuple[list[Draft], tuple[str, ...]]:
    """Return a term of the whole matrix, its axes tied where one group is all of them."""
    outer = rows_dim(dim)
    named: dict[str, str | None] = {"cols": None, "rows": None}
    reasons, loose = [], set()
    for kind, at in (("cols", dim), ("rows", outer)):
        if kind not in pattern.axes:
            continue
        named[kind], touching = _variable(network, network.axes[tensor][at])
        if named[kind] is None:
            loose |= touching
            reasons.append(_hindrance(kind, network.axes[tensor][at], touching))
    draft = Draft(tensor, pattern, Turned(dim), named["rows"], named["cols"], frozenset(loose))
    return [draft], tuple(reasons) or ("no order changes what its mask keeps",)


def _hindrance(kind: str, of: Axis, touching: set[str]) -> str:
    if touching:
        return f"{', '.join(sorted(touching))} order only parts of its {kind}"
    reason = next((why for leaf in leaves(of) for why in leaf.pins), "told apart one by one")
    return f"its {kind} stay: {reason}"


@dataclass(frozen=True, slots=True)
class Turned:
    """Lays scores out with the columns second."""

    dim: int

    @property
    def by_rows(self) -> bool:
        """Whether rows of a matrix can be laid out some at a time."""
        return self.dim == 1

    def entries(self, shape: Sequence[int]) -> int:
        """Return how many scores it takes of a weight of this shape."""
        return prod(shape)

    def __call__(self, scores: Scores) -> Scores:
        """Return scores (out, in, *k)."""
        return np.ascontiguousarray(np.moveaxis(scores, self.dim, 1))


def _variable(network: Network, of: Axis) -> tuple[str | None, set[str]]:
    """Return the group that orders a whole axis, and the groups that order parts of it."""
    product, inside = flat(of), set(leaves(of))
    touching = set()
    for name, orbit in network.orbits.items():
        if product == orbit.within + orbit.leaves:
            return name, {name}
        if inside.intersection(orbit.leaves):
            touching.add(name)
    return None, touching
