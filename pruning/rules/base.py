"""What a rule is called with, what it returns, and the few things all rules say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pruning.axes import Atom, Axis, axis, direct_sum, flat, leaves, pin, size, unify

Shape: TypeAlias = list[int]


@dataclass(frozen=True, slots=True)
class Origin:
    """The parameter that a value is, perhaps transposed, cut up or rescaled.

    Attributes
    ----------
    dims
        The parameter's dimension that each dimension of the value is; -1 for a new one.
    exact
        Whether its entries are the parameter's own, not computed from them by a parametrization.
    """

    name: str
    dims: tuple[int, ...]
    exact: bool = True

    def without(self, dim: int) -> Origin:
        """Return the origin where a dimension is dropped."""
        return replace(self, dims=self.dims[:dim] + self.dims[dim + 1 :])


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of the graph: one axis for each dimension.

    Attributes
    ----------
    rows
        Leaves that each row knows although no dimension shows them (tokens sorted by expert).
    uniform
        All entries are equal, so that the value binds nothing it meets.
    origin
        The parameter or buffer this value holds.
    stacked
        Slices along one dimension whose other axes are still kept apart: (dimension, slices).
    """

    axes: list[Axis]
    rows: tuple[Atom, ...] = ()
    uniform: bool = False
    origin: Origin | None = None
    stacked: tuple[int, list[Value]] | None = None

    @property
    def shape(self) -> Shape:
        """Sizes of the dimensions."""
        return [size(flat(axis)) for axis in self.axes]

    def replaced(self, dim: int, axes: Sequence[Axis]) -> Value:
        """Return the value with other axes in the place of one dimension."""
        found = Value([*self.axes[:dim], *axes, *self.axes[dim + 1 :]], self.rows)
        if self.origin is not None and len(axes) < 2:
            found.origin = self.origin if axes else self.origin.without(dim)
        return found


Result: TypeAlias = Value | Sequence[Value | None] | None


@dataclass(slots=True)
class Facts:
    """What the rules have said beyond ties: where operators mix, and which weights they read.

    Attributes
    ----------
    mixed
        (value, axis): an operator combines positions along `axis` while the value's other
        axes pass through, so those must be reordered alike at all positions of `axis`.
    read
        (parameter, dimension): a contraction runs over this dimension of a weight.
    computed
        Parameters that a contraction reads through a computation (a weight norm).
    formed
        Products that a contraction sums without ever showing them: what accompanies a summed
        axis in both operands, but is not aligned between them, occurs there twice.
    """

    mixed: list[tuple[Value, Axis]] = field(default_factory=list)
    formed: list[Value] = field(default_factory=list)
    read: set[tuple[str, int]] = field(default_factory=set)
    computed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Call:
    """One operator of the graph with its arguments by name.

    Attributes
    ----------
    cuts
        For a view: the dimension that is only cut up later, and the sizes of its pieces.
    masks
        Identities of the arguments that are boolean.
    used
        Positions of the outputs that anything takes; None where there is but one output.
    spoken
        Leaves of the inputs that the rule has said something about.
    """

    op: str
    node: str
    args: Mapping[str, Any]
    shapes: list[Shape]
    single: bool
    facts: Facts
    cuts: tuple[int, list[int]] | None = None
    masks: frozenset[int] = frozenset()
    used: frozenset[int] | None = None
    spoken: set[Atom] = field(default_factory=set)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument; the default where it is absent or None."""
        found = self.args.get(name)
        return default if found is None else found

    def tensor(self, *names: str) -> Value:
        """Return the first argument of these names that is a tensor."""
        for name in names:
            if isinstance(self.args.get(name), Value):
                value: Value = self.args[name]
                return value
        raise KeyError(f"{self.op} has no tensor among {names}")

    def dim(self, rank: int, default: int = 0, name: str = "dim") -> int:
        """Return a dimension argument counted from the front."""
        return int(self.get(name, default)) % max(rank, 1)

    @property
    def shape(self) -> Shape:
        """Shape of the only, or the first, output."""
        return self.shapes[0]

    def tensors(self) -> Iterator[Value]:
        """Yield every tensor among the arguments."""
        yield from values(self.args.values())

    def mix(self, value: Value, *axes: Axis) -> None:
        """Say that positions along these axes of a value are combined."""
        mixed = tuple(atom for axis in axes for atom in axis)
        self.facts.mixed.append((value, mixed))
        self.spoken.update(leaves(mixed))

    def form(self, *axes: Axis, rows: tuple[Atom, ...] = ()) -> None:
        """Say what the product that is summed has for dimensions, summed ones included."""
        self.facts.formed.append(Value(list(axes), rows))

    def forget(self, of: Axis) -> None:
        """Say that an axis may end here, with no condition on its order."""
        self.spoken.update(leaves(of))

    def pin(self, of: Axis, reason: str = "order of positions matters") -> None:
        """Let nothing along an axis move."""
        pin(of, f"{self.op}: {reason}")

    def each(self, make: Callable[[Shape], Value]) -> Result:
        """Return a value for each output."""
        return make(self.shape) if self.single else [make(shape) for shape in self.shapes]


Rule: TypeAlias = Callable[[Call], Result]
Table: TypeAlias = dict[str, Rule]


def table(*entries: tuple[Rule, str]) -> Table:
    """Return the rule of each operator from (rule, names in one text) pairs."""
    return {name: rule for rule, names in entries for name in names.split()}


def values(items: Iterable[Any]) -> Iterator[Value]:
    """Yield the values in nested lists."""
    for item in items:
        if isinstance(item, Value):
            yield item
        elif isinstance(item, list | tuple):
            yield from values(item)


def fresh(shape: Shape, *pins: str, label: str = "") -> Value:
    """Return a value of new axes, pinned where reasons are given."""
    return Value([axis(count, label, *pins) for count in shape])


def opaque(call: Call, reason: str) -> Result:
    """Pin all that goes in and comes out: the barrier for what no rule understands."""
    for value in call.tensors():
        for of in value.axes:
            pin(of, reason)
    return call.each(lambda shape: fresh(shape, reason))


def align(operands: Sequence[Value], rank: int) -> list[Axis]:
    """Unify the dimensions that meet under broadcasting; return the axes of the result.

    Operands of one value only bind nothing; where they alone are wide, the axis is free.
    """
    varied = [value for value in operands if not value.uniform] or list(operands)
    axes = [_meet(varied, dim) for dim in range(-rank, 0)]
    if len(varied) < len(operands):
        wide = [max(_width(value, dim) for value in operands) for dim in range(-rank, 0)]
        axes = [
            of if size(flat(of)) == count else axis(count, "uniform")
            for of, count in zip(axes, wide, strict=True)
        ]
    return axes


def _width(value: Value, dim: int) -> int:
    return size(flat(value.axes[dim])) if len(value.axes) >= -dim else 1


def _meet(operands: Sequence[Value], dim: int) -> Axis:
    wide = [value.axes[dim] for value in operands if _width(value, dim) != 1]
    for other in wide[1:]:
        unify(wide[0], other)
    return wide[0] if wide else ()


def contract(call: Call, *operands: tuple[Value, Sequence[int]]) -> None:
    """Let the named dimensions of each operand sum against the first operand's."""
    first, dims = operands[0]
    for value, others in operands:
        for dim, other in zip(dims, others, strict=True):
            unify(first.axes[dim], value.axes[other])
        call.mix(value, *(value.axes[dim] for dim in others))
        read(call, value, others)


def read(call: Call, value: Value, dims: Iterable[int]) -> None:
    """Note that a contraction runs over these dimensions of a weight."""
    if value.origin is None:
        return
    own = [value.origin.dims[dim] for dim in dims]
    call.facts.read.update((value.origin.name, dim) for dim in own if dim >= 0)
    if not value.origin.exact:
        call.facts.computed.add(value.origin.name)


def settle(value: Value) -> Value:
    """Tie the slices of a stacked value: from here on they move alike."""
    if value.stacked is not None:
        dim, slices = value.stacked
        for other in slices[1:]:
            for at, (one, two) in enumerate(zip(slices[0].axes, other.axes, strict=True)):
                if at != dim:
                    unify(one, two)
        value.stacked = None
    return value


def carried(value: Value, change: Callable[[Value], Value], to: int | None = None) -> Value:
    """Return a rearranged value whose slices, where there are any, are rearranged alike.

    Parameters
    ----------
    change
        The rearrangement; it must not touch the stacked dimension.
    to
        Where the stacked dimension ends up; where it was when None.
    """
    result = change(value)
    if value.stacked is not None:
        dim, slices = value.stacked
        result.stacked = dim if to is None else to, [change(one) for one in slices]
    return result


def stack_of(dim: int, slices: list[Value]) -> Value:
    """Return the value that holds slices along a dimension, their other axes kept apart."""
    if len(slices) == 1:
        return slices[0]
    along = direct_sum([one.axes[dim] for one in slices])
    rows = tuple(leaf for one in slices for leaf in one.rows)
    return Value(
        [*slices[0].axes[:dim], along, *slices[0].axes[dim + 1 :]], rows, stacked=(dim, slices)
    )
