"""From axes to groups: which positions move together, and on what their order may depend.

A leaf that no rule pinned may be reordered. Its *context* is what accompanies it in every tensor
where it occurs (heads accompany the channels of a head), less what some operator mixes while the
leaf passes through: the order may differ for each index of the context. Two leaves in each other's
context are reordered jointly: any order of their product is legal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pruning.axes import Atom, Axis, flat, leaves, parts_of
from pruning.rules.base import Facts, Value

Placed: TypeAlias = tuple[tuple[Atom, int], ...]
Contexts: TypeAlias = dict[Atom, set[Atom]]


@dataclass(frozen=True, slots=True)
class Orbit:
    """Leaves that are reordered jointly, one order for each index of the leaves `within`."""

    leaves: tuple[Atom, ...]
    within: tuple[Atom, ...]


def orbits(
    seen: Iterable[Value], facts: Facts, owned: Iterable[Value], first: Iterable[Axis] = ()
) -> list[Orbit]:
    """Return every free orbit that some owned tensor has, those on others' inside first.

    Parameters
    ----------
    seen, facts
        What the interpreter met and was told.
    owned
        The tensors that can be moved.
    first
        Axes whose leaves set the order in which a joint orbit counts its items.
    """
    owned = list(owned)
    contexts = _contexts([*seen, *owned])
    _separate(contexts, facts)
    free = _free([*first, *(of for value in owned for of in value.axes)])
    bundles = _bundles(free, contexts)
    return _ranked(Orbit(bundle, _within(bundle, contexts, free, bundles)) for bundle in bundles)


def _free(axes: Iterable[Axis]) -> list[Atom]:
    found: dict[Atom, None] = {}
    for of in axes:
        found.update((leaf, None) for leaf in leaves(of) if leaf.size > 1 and not leaf.pins)
    return list(found)


def _contexts(seen: Iterable[Value]) -> Contexts:
    contexts: Contexts = {}
    done = set()
    for value in seen:
        for one in [value] if value.stacked is None else value.stacked[1]:
            key = tuple(flat(of) for of in one.axes), tuple(leaves(one.rows))
            if key in done:
                continue
            done.add(key)
            for leaf, others in occurrences(one):
                contexts[leaf] = contexts[leaf] & others if leaf in contexts else others
    return contexts


def occurrences(value: Value) -> Iterator[tuple[Atom, set[Atom]]]:
    """Yield each leaf of a value with the leaves that accompany it unambiguously there."""
    rows = set(leaves(value.rows))
    for placed in unfolded(value.axes):
        at: dict[Atom, list[int]] = defaultdict(list)
        for atom, dim in placed:
            at[atom].append(dim)
        for atom, dim in placed:
            others = {
                other
                for other, dims in at.items()
                if other is not atom and (len(dims) == 1 or dims.count(dim) == 1)
            }
            yield atom, others | (rows - {atom})


def unfolded(axes: Iterable[Axis]) -> Iterator[Placed]:
    """Yield the tensor as products of leaves, one for each choice of parts of direct sums."""
    todo: list[Placed] = [tuple((atom, dim) for dim, of in enumerate(axes) for atom in flat(of))]
    while todo:
        placed = todo.pop()
        index = next((i for i, (atom, _) in enumerate(placed) if atom.parts is not None), None)
        if index is None:
            yield placed
            continue
        atom, dim = placed[index]
        for part in parts_of(atom):
            inner = tuple((other, dim) for other in part)
            todo.append(placed[:index] + inner + placed[index + 1 :])


def _separate(contexts: Contexts, facts: Facts) -> None:
    """Take what an operator mixes out of the contexts of what passes through it."""
    done = set()
    for value, mixed in facts.mixed:
        key = tuple(flat(of) for of in value.axes), flat(mixed)
        if key in done:
            continue
        done.add(key)
        inner = set(leaves(mixed))
        for of in value.axes if inner else ():
            for leaf in leaves(of):
                if leaf in contexts and leaf not in inner:
                    contexts[leaf] -= inner


def _bundles(free: list[Atom], contexts: Contexts) -> list[tuple[Atom, ...]]:
    """Join leaves that always accompany each other."""
    left, found = dict.fromkeys(free), []
    while left:
        first = next(iter(left))
        joined = [first]
        for other in left:
            if other is not first and all(_mutual(other, one, contexts) for one in joined):
                joined.append(other)
        for leaf in joined:
            del left[leaf]
        found.append(tuple(joined))
    return found


def _mutual(one: Atom, two: Atom, contexts: Contexts) -> bool:
    return two in contexts.get(one, ()) and one in contexts.get(two, ())


def _within(
    bundle: tuple[Atom, ...],
    contexts: Mapping[Atom, set[Atom]],
    free: list[Atom],
    bundles: list[tuple[Atom, ...]],
) -> tuple[Atom, ...]:
    """Return the leaves that choose among a bundle's orders; one direction of a mutual pair."""
    common = set.intersection(*(contexts.get(leaf, set()) for leaf in bundle)) - set(bundle)
    place = {leaf: index for index, other in enumerate(bundles) for leaf in other}
    own = place[bundle[0]]
    back = {
        leaf
        for leaf in common
        if place.get(leaf, -1) > own and any(one in contexts.get(leaf, ()) for one in bundle)
    }
    kept = common - back
    ordered = [leaf for leaf in free if leaf in kept]
    return (*ordered, *sorted(kept.difference(ordered), key=lambda leaf: (leaf.label, leaf.size)))


def _ranked(found: Iterable[Orbit]) -> list[Orbit]:
    """Order orbits so that one stands before those its order depends on."""
    left, ranked = list(found), []
    while left:
        needed = {leaf for orbit in left for leaf in orbit.within}
        ready = [orbit for orbit in left if not needed.intersection(orbit.leaves)]
        if not ready:  # a circle: one of them gives up its dependence on the others
            waiting = {leaf for orbit in left for leaf in orbit.leaves}
            kept = tuple(leaf for leaf in left[0].within if leaf not in waiting)
            left[0] = Orbit(left[0].leaves, kept)
            continue
        ranked += ready
        left = [orbit for orbit in left if orbit not in ready]
    return ranked
