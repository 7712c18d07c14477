"""Axes as ordered products of atoms, with union-find: who must be reordered together.

Every dimension of every tensor of a captured network is an `Axis`: a row-major product of atoms.
An atom is a run of positions and one of four things: a *leaf*, a *link* to an equal atom, a
*product* of smaller atoms, or a *direct sum* of axes laid end to end. What is learnt about an
atom later (that it is two factors, or equal to another) holds wherever it was used before, so one
pass over the graph is enough.

Positions of size 1 carry no freedom and are dropped, so a broadcast dimension is the empty axis
and binds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import TypeAlias


class Conflict(Exception):
    """Two structures of one axis that cannot be refined into each other."""


class Atom:
    """A run of `size` positions; its `pins` are the reasons why it may not be reordered."""

    __slots__ = ("factors", "label", "link", "parts", "pins", "size")

    def __init__(self, size: int, label: str = "", pins: Iterable[str] = ()) -> None:
        self.size = int(size)
        self.label = label
        self.pins: dict[str, None] = dict.fromkeys(pins)
        self.link: Atom | None = None
        self.factors: Axis | None = None
        self.parts: list[Axis] | None = None

    def __repr__(self) -> str:
        return f"{self.label or 'atom'}:{self.size}"

    @property
    def root(self) -> Atom:
        """The atom that stands for all atoms equal to this one."""
        atom = self
        while atom.link is not None:
            atom = atom.link
        return atom


Axis: TypeAlias = tuple[Atom, ...]


def axis(size: int, label: str = "", *pins: str) -> Axis:
    """Return a fresh axis of one leaf; of nothing where there is but one position."""
    return () if size == 1 else (Atom(size, label, pins),)


def size(of: Iterable[Atom]) -> int:
    """Return the number of positions of an axis."""
    return prod(atom.size for atom in of)


def flat(of: Iterable[Atom]) -> Axis:
    """Return the factors of an axis that are leaves or direct sums, most significant first."""
    found: list[Atom] = []
    for atom in of:
        root = atom.root
        if root.factors is not None:
            found.extend(flat(root.factors))
        elif root.size != 1:
            found.append(root)
    return tuple(found)


def parts_of(atom: Atom) -> list[Axis]:
    """Return the parts of a direct sum; a part that begins with a sum is opened into its own.

    ``[Sum(a, b), c]`` and ``Sum([a, c], [b, c])`` are the same axis, read in two ways.
    """
    opened: list[Axis] = []
    for part in map(flat, atom.parts or ()):
        if part and part[0].parts is not None:
            opened.extend(flat(head + part[1:]) for head in parts_of(part[0]))
        else:
            opened.append(part)
    return opened


def leaves(of: Iterable[Atom]) -> Iterator[Atom]:
    """Yield the leaves below an axis, in order; one that occurs twice comes twice."""
    for atom in flat(of):
        if atom.parts is None:
            yield atom
        else:
            for part in parts_of(atom):
                yield from leaves(part)


def pin(of: Iterable[Atom], reason: str) -> None:
    """Let nothing below an axis be reordered."""
    for leaf in leaves(of):
        leaf.pins[reason] = None


def direct_sum(axes: Iterable[Axis]) -> Axis:
    """Return the axis that lays the given ones end to end."""
    laid = [flat(part) for part in axes if size(part)]
    if len(laid) == 1:
        return laid[0]
    whole = Atom(sum(map(size, laid)))
    whole.parts = laid
    return (whole,)


def split(of: Axis, minor: int) -> tuple[Axis, Axis]:
    """Cut a product after its major part so that the rest has `minor` positions.

    Raises
    ------
    Conflict
        When the positions do not divide.
    """
    left = flat(of)
    right: Axis = ()
    while size(right) != minor:
        left = flat(left)
        if not left or minor % size(right):
            raise Conflict(f"{size(of)} positions do not split into rows of {minor}")
        need, last = minor // size(right), left[-1]
        if need % last.size == 0:
            left, right = left[:-1], (last, *right)
        elif last.size % need == 0:
            major, rest = _refine(last, need)
            left, right = left[:-1] + flat(major), flat(rest) + right
        else:
            raise Conflict(f"{last.size} positions do not split into rows of {need}")
    return flat(left), flat(right)


def _refine(atom: Atom, minor: int) -> tuple[Axis, Axis]:
    """Make a root atom a product (major, minor), wherever it is used."""
    if atom.parts is None:
        pair = Atom(atom.size // minor, atom.label, atom.pins), Atom(minor, atom.label, atom.pins)
        atom.factors = pair
        return (pair[0],), (pair[1],)
    parts = parts_of(atom)
    if any(size(part) % minor for part in parts):
        sizes = [size(part) for part in parts]
        raise Conflict(f"a concatenation of {sizes} is viewed in rows of {minor}")
    pairs = [split(part, minor) for part in parts]
    inner = pairs[0][1]
    for _, other in pairs[1:]:
        merge(inner, other)
    major = direct_sum([head for head, _ in pairs])
    atom.parts, atom.factors = None, flat(major + inner)
    return major, inner


def rows_of(of: Axis, sizes: Sequence[int]) -> list[Axis]:
    """Read one axis in row-major order as several."""
    found: list[Axis] = []
    for count in reversed(sizes):
        of, right = split(of, count)
        found.insert(0, right)
    return found


def cut(of: Axis, at: int) -> tuple[Axis, Axis]:
    """Make an axis a direct sum of its first `at` positions and the rest; return both sides.

    Raises
    ------
    Conflict
        When the cut falls inside a block of a product.
    """
    product = flat(of)
    lead, rest = product[0], product[1:]
    if at % size(rest):
        raise Conflict(f"a cut at {at} falls inside a block of {size(rest)}")
    at //= size(rest)
    if lead.parts is None:
        halves = at, lead.size - at
        lead.parts = [(Atom(half, lead.label, lead.pins),) for half in halves]
    parts = parts_of(lead)
    ends = list(accumulate(map(size, parts)))
    index = sum(end <= at for end in ends)
    start = ends[index - 1] if index else 0
    if start != at:
        parts[index : index + 1] = cut(parts[index], at - start)
        index += 1
    lead.parts = parts
    return flat(direct_sum(parts[:index]) + rest), flat(direct_sum(parts[index:]) + rest)


def sections(of: Axis, sizes: Sequence[int]) -> list[Axis]:
    """Cut an axis into consecutive pieces of the given sizes."""
    found: list[Axis] = []
    for count in sizes[:-1]:
        head, of = cut(of, count) if count < size(of) else (flat(of), ())
        found.append(head)
    return [*found, flat(of)]


def unify(first: Axis, second: Axis) -> None:
    """Let two axes take the same order. A conflict pins both instead: sound, and told."""
    try:
        merge(first, second)
    except Conflict as conflict:
        for side in (first, second):
            pin(side, f"conflict: {conflict}")


def merge(first: Axis, second: Axis) -> None:
    """Unify, or raise Conflict with both sides possibly tied in part."""
    left, right = flat(first), flat(second)
    while left and right:
        a, b = left[-1], right[-1]
        if a is b or a.size == b.size:
            if a is not b:
                _tie(a, b)
        else:
            if a.size < b.size:
                left, right, a, b = right, left, b, a
            if a.size % b.size:
                raise Conflict(f"{a.size} positions against {b.size}")
            major, minor = _refine(a, b.size)
            left, right = flat(left[:-1] + major + minor), flat(right)
            continue
        left, right = flat(left[:-1]), flat(right[:-1])
    if left or right:
        raise Conflict("two axes of different sizes")


def _tie(a: Atom, b: Atom) -> None:
    """Make two root atoms of one size the same atom."""
    if a.parts is None and b.parts is None:
        a.pins.update(b.pins)
        b.link = a
    elif a.parts is None or b.parts is None:
        leaf, whole = (a, b) if a.parts is None else (b, a)
        for reason in leaf.pins:
            pin((whole,), reason)
        leaf.link = whole
    else:
        ends = sorted({*_ends(a), *_ends(b)})
        sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        for piece, other in zip(sections((a,), sizes), sections((b,), sizes), strict=True):
            merge(piece, other)
        b.link = a


def _ends(atom: Atom) -> Iterator[int]:
    return accumulate(map(size, parts_of(atom)))
