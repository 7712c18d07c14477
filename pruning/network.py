"""What `trace` returns: the groups of a network, what is pinned and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from permsearch.domains import Domain, Free, Segments
from pruning.axes import Axis, size
from pruning.groups import Orbit

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx
    import torch

    from permsearch.patterns import Pattern
    from permsearch.problem import Problem

Role: TypeAlias = Literal["reads", "writes", "follows"]
Kind: TypeAlias = Literal["plain", "within blocks", "of blocks"]


@dataclass(frozen=True, slots=True)
class Member:
    """A dimension of a parameter or buffer that takes part in a group.

    Attributes
    ----------
    tensor, dim
        Name in the state dict, and dimension.
    role
        "reads": a contraction runs over it; "writes": it is what a weight produces;
        "follows": it lies along the group (a bias, a norm's scale, a running mean).
    block
        Consecutive positions that move with each item there (a map of 4 x 4 pixels: 16).
    """

    tensor: str
    dim: int
    role: Role
    block: int = 1

    def __str__(self) -> str:
        block = f" in blocks of {self.block}" if self.block > 1 else ""
        return f"{self.tensor}[{self.dim}] {self.role}{block}"


@dataclass(frozen=True, slots=True)
class Group:
    """Positions that take one order wherever they occur.

    Attributes
    ----------
    name
        Of its variable: the first weight that writes (else has) it, and the dimension.
    size
        Items that are reordered.
    blocks
        1, or the number of blocks each of which has an order of its own (heads).
    kind
        "plain", "within blocks", or "of blocks" (the items are blocks themselves).
    members
        Every dimension of a parameter or buffer that moves.
    """

    name: str
    size: int
    blocks: int
    kind: Kind
    members: tuple[Member, ...]

    @property
    def domain(self) -> Domain:
        """The legal orders of the group's variable; blocks stand one after another."""
        return Free(self.size) if self.blocks == 1 else Segments((self.size,) * self.blocks)

    @property
    def readers(self) -> tuple[Member, ...]:
        """The members that a contraction runs over: what an N:M pattern is sensitive to."""
        return tuple(member for member in self.members if member.role == "reads")

    def __str__(self) -> str:
        blocks = f" in each of {self.blocks} blocks" if self.blocks > 1 else ""
        return f"{self.name}: {self.size}{blocks} ({self.kind}), {len(self.members)} tensors"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a tensor whose other axes have orders of their own (one expert of a stack)."""

    base: str
    dim: int
    start: int
    count: int

    def of(self, tensor: Any) -> Any:
        """Return the piece, a view of its tensor."""
        return tensor.narrow(self.dim, self.start, self.count)


@dataclass(frozen=True, slots=True)
class Pin:
    """A dimension of a parameter or buffer that (in part) stays where it is, and why."""

    tensor: str
    dim: int
    size: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{self.dim}] ({self.size}) stays: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """The channel symmetries of a captured model.

    Attributes
    ----------
    groups
        What may be reordered, as variables of a problem.
    pins
        What may not, with reasons.
    unread
        Parameters that no captured run read; whatever they could read is pinned.
    unknown
        Operators without a rule that were met, with what was pinned for them.
    aliases
        Other names of tied tensors.
    tensors
        The model's parameters and buffers themselves, by name; tied ones once, stacks piece by
        piece. `whole` has them unstacked.
    parts
        Tensors that are treated piece by piece, by the names of the pieces.
    outputs
        For each example, the axes of what the model returns; `output_moves` reads them.
    """

    groups: tuple[Group, ...]
    pins: tuple[Pin, ...]
    unread: tuple[str, ...]
    unknown: Mapping[str, str]
    aliases: Mapping[str, str]
    tensors: Mapping[str, torch.Tensor] = field(repr=False)
    axes: Mapping[str, tuple[Axis, ...]] = field(repr=False)
    parts: Mapping[str, Part] = field(repr=False)
    orbits: Mapping[str, Orbit] = field(repr=False)
    read: frozenset[tuple[str, int]] = field(repr=False)
    whole: Mapping[str, torch.Tensor] = field(repr=False)
    computed: frozenset[str] = field(repr=False)
    outputs: tuple[tuple[tuple[Axis, ...], ...], ...] = field(repr=False)
    examples: tuple[tuple[tuple[Any, ...], Mapping[str, Any]], ...] = field(repr=False)

    def __getitem__(self, name: str) -> Group:
        """Return a group by its name."""
        from permsearch.errors import unknown

        for group in self.groups:
            if group.name == name:
                return group
        raise unknown("group", name, [group.name for group in self.groups])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter and buffer; tied ones once, stacks piece by piece."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def base(self, name: str) -> str:
        """Return the name in the state dict of a tensor, or of the one that it is a piece of."""
        return self.parts[name].base if name in self.parts else name

    def whole_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, or of the one that it is a piece of."""
        shape = list(self.tensors[name].shape)
        if name in self.parts:
            own = self.parts[name]
            same = [part for part in self.parts.values() if part.base == own.base]
            shape[own.dim] = sum(part.count for part in same)
        return tuple(shape)

    def pick(self, tensors: Mapping[str, Any], name: str) -> Any:
        """Return a tensor, or the piece of one, from those of a state dict."""
        return pick(self.parts, tensors, name)

    @property
    def domains(self) -> dict[str, Domain]:
        """The variables of the network's problems."""
        return {group.name: group.domain for group in self.groups}

    def problem(
        self,
        patterns: str | Pattern | Mapping[str, str | Pattern] | None = None,
        scores: Any = "magnitude",
        *,
        state: Any = None,
    ) -> Problem:
        """Return the search problem of this network: see `pruning.formulate`."""
        from pruning.formulate import formulate

        return formulate(self, patterns, scores, state=state).problem

    def graph(self) -> nx.MultiGraph[str]:
        """Return groups and tensors as a networkx graph, an edge for each member."""
        from pruning.drawing import graph

        return graph(self)

    def draw(self, path: str | Path) -> None:
        """Draw groups and the tensors they run through, as SVG or PNG by the file's ending."""
        from pruning.drawing import draw

        draw(self, path)

    def summary(self, *, every: bool = False) -> str:
        """Return a page of text: groups with their members, pins with their reasons.

        Of more than three that differ in numbers of layers alone, only the first is told, with how
        many there are; with `every`, all.
        """
        from pruning.drawing import summary

        return summary(self, every=every)

    def __str__(self) -> str:
        return (
            f"Network: {len(self.groups)} groups, {len(self.pins)} pinned dimensions, "
            f"{len(self.unread)} unread parameters, {len(self.unknown)} operators without a rule"
        )


def pick(parts: Mapping[str, Part], tensors: Mapping[str, Any], name: str) -> Any:
    """Return a tensor, or the piece of one, from those of a state dict."""
    if name not in parts:
        return tensors[name]
    return parts[name].of(tensors[parts[name].base])


def blocks_of(orbit: Orbit) -> int:
    """Return the number of blocks that have an order of their own."""
    return size(orbit.within)
