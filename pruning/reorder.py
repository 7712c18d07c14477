"""Orders of groups to index vectors of tensors.

A tensor's dimensions are products and sums of leaves. Dimensions whose orders depend on each other
(an expert's own order of its units) are indexed together, all others one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pruning.axes import Atom, Axis, flat, leaves, parts_of, size
from pruning.groups import Orbit, Placed, unfolded
from pruning.network import Network, Part

Grid: TypeAlias = NDArray[np.int64]
Chosen: TypeAlias = Sequence[tuple[Orbit, Grid]]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """An index over some dimensions of a tensor, taken together in row-major order.

    `part` is the piece of the tensor that `apply_` acts on; the whole where it is None.
    """

    dims: tuple[int, ...]
    index: Grid
    part: Part | None = None

    @property
    def inverse(self) -> Move:
        """The move that undoes this one."""
        return Move(self.dims, np.argsort(self.index), self.part)

    def apply_(self, tensor: Any) -> None:
        """Reorder a tensor (of torch) in place, or the part of it that is meant."""
        whole = tensor if self.part is None else self.part.of(tensor)
        whole.copy_(self.apply(whole))

    def apply(self, tensor: Any) -> Any:
        """Return the tensor (of torch) with the positions of these dimensions reordered."""
        import torch

        index = torch.from_numpy(self.index).to(tensor.device)
        if len(self.dims) == 1:
            return tensor.index_select(self.dims[0], index)
        front = tuple(range(len(self.dims)))
        moved = tensor.movedim(self.dims, front)
        taken = moved.flatten(0, len(front) - 1).index_select(0, index)
        return taken.reshape(moved.shape).movedim(front, self.dims)


def blockwise(orbit: Orbit, order: NDArray[Any]) -> Grid:
    """Return a variable's order as one permutation for each block."""
    blocks, count = size(orbit.within), size(orbit.leaves)
    local = np.asarray(order, np.int64).reshape(blocks, count)
    return local - count * np.arange(blocks)[:, None]


def moves(axes: Sequence[Axis], chosen: Chosen) -> list[Move]:
    """Return what the chosen orders do to a tensor; groups inside others come first."""
    present = {leaf for of in axes for leaf in leaves(of)}
    own = [(orbit, order) for orbit, order in chosen if present.intersection(orbit.leaves)]
    if not own:
        return []
    found = []
    for dims in _clusters(axes, [orbit for orbit, _ in own]):
        inside = {leaf for dim in dims for leaf in leaves(axes[dim])}
        some = [(orbit, order) for orbit, order in own if inside.intersection(orbit.leaves)]
        if not some:
            continue
        placed = tuple((atom, dim) for dim in dims for atom in flat(axes[dim]))
        shape = tuple(atom.size for atom, _ in placed)
        grid = np.arange(size(atom for atom, _ in placed), dtype=np.int64).reshape(shape)
        index = _rearranged(grid, placed, some).ravel()
        if not np.array_equal(index, np.arange(index.size)):
            found.append(Move(dims, index))
    return found


def _clusters(axes: Sequence[Axis], found: Sequence[Orbit]) -> list[tuple[int, ...]]:
    """Return the dimensions in clusters whose orders do not depend on each other."""
    home = list(range(len(axes)))
    for placed in unfolded(axes):
        for orbit in found:
            for place in _places(placed, orbit):
                dims = {home[placed[index][1]] for index in place}
                home = [min(dims) if at in dims else at for at in home]
    return [tuple(dim for dim, at in enumerate(home) if at == lead) for lead in sorted(set(home))]


def _places(placed: Placed, orbit: Orbit) -> Iterator[list[int]]:
    """Yield, for each occurrence of an orbit, the factors it acts on: within, then leaves."""
    for index, (atom, dim) in enumerate(placed):
        if atom is orbit.leaves[0]:
            rest = [_partner(placed, leaf, dim) for leaf in orbit.leaves[1:]]
            yield [_partner(placed, leaf, dim) for leaf in orbit.within] + [index, *rest]


def _partner(placed: Placed, leaf: Atom, dim: int) -> int:
    """Return the factor that accompanies one in dimension `dim`: there, else the only one."""
    here = [index for index, (atom, at) in enumerate(placed) if atom is leaf and at == dim]
    anywhere = [index for index, (atom, _) in enumerate(placed) if atom is leaf]
    return here[0] if len(here) == 1 else anywhere[0]


def _rearranged(grid: Grid, placed: Placed, chosen: Chosen) -> Grid:
    index = next((at for at, (atom, _) in enumerate(placed) if atom.parts is not None), None)
    if index is not None:
        return _by_parts(grid, placed, index, chosen)
    for orbit, order in chosen:
        for place in _places(placed, orbit):
            grid = _permuted(grid, place, len(orbit.within), order)
    return grid


def _by_parts(grid: Grid, placed: Placed, index: int, chosen: Chosen) -> Grid:
    """Rearrange each part of a direct sum on its own."""
    atom, dim = placed[index]
    before, after = grid.shape[:index], grid.shape[index + 1 :]
    done, start = [], 0
    for part in parts_of(atom):
        count = size(part)
        piece = np.take(grid, range(start, start + count), axis=index)
        inner = tuple((other, dim) for other in part)
        shape = (*before, *(other.size for other in part), *after)
        moved = _rearranged(
            piece.reshape(shape), placed[:index] + inner + placed[index + 1 :], chosen
        )
        done.append(moved.reshape(*before, count, *after))
        start += count
    return np.concatenate(done, axis=index)


def _permuted(grid: Grid, place: list[int], outer: int, order: Grid) -> Grid:
    """Reorder the product of some factors, one order for each index of the outer ones."""
    last = list(range(grid.ndim - len(place), grid.ndim))
    moved = np.moveaxis(grid, place, last)
    blocks = int(np.prod([grid.shape[at] for at in place[:outer]], dtype=np.int64))
    flat_ = moved.reshape(*moved.shape[: grid.ndim - len(place)], blocks, -1)
    taken = np.take_along_axis(flat_, order.reshape((1,) * (flat_.ndim - 2) + order.shape), -1)
    return np.moveaxis(taken.reshape(moved.shape), last, place)


def moves_of(network: Network, solution: Mapping[str, Any]) -> dict[str, list[Move]]:
    """Return the moves of every tensor that a solution changes, by its name in the state dict."""
    chosen = [
        (orbit, blockwise(orbit, solution[name]))
        for name, orbit in network.orbits.items()
        if name in solution
    ]
    found: dict[str, list[Move]] = {}
    for name, dims in network.axes.items():
        part = network.parts.get(name)
        for move in moves(dims, chosen):
            found.setdefault(network.base(name), []).append(replace(move, part=part))
    return found
