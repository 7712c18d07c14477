"""Find every channel symmetry of a model: capture it, let the rules speak, collect groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import nn
from torch.export.graph_signature import OutputKind

from pruning.axes import Atom, Axis, flat, leaves, pin, size, unify
from pruning.capture import captures, unwrapped
from pruning.groups import Orbit, orbits
from pruning.interpret import Interpreter
from pruning.lookahead import stacked_parameter
from pruning.network import Group, Member, Network, Part, Pin, Role, blocks_of
from pruning.rules.base import Origin, Value, fresh, settle, stack_of, values
from pruning.unread import pin_unread

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Ends: TypeAlias = Literal["pin", "free"]
Example: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]


def trace(
    model: nn.Module,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    more: Iterable[tuple[Any, Mapping[str, Any]]] = (),
    outputs: Ends = "pin",
    ignore_unread: Sequence[str] = (),
) -> Network:
    """Return the groups of positions of a model that may be reordered without changing it.

    Parameters
    ----------
    model
        Any module; DataParallel, DistributedDataParallel and `torch.compile` are looked through.
        It is captured in evaluation mode and left as it was. On the `meta` device too.
    args, kwargs
        An example input. Sizes are taken as they are: use a batch of 2 and a length that equals
        no width. A single tensor may be given without a tuple.
    more
        Further example inputs (args, kwargs), for branches that the first does not take; their
        graphs are merged.
    outputs
        "pin": outputs stay as they are. "free": the last axis of an output may be reordered;
        `pruning.permute.output_moves` tells how.
    ignore_unread
        Globs of parameters that no run reads and that are known to be dead. Other such
        parameters may belong to a branch that was not taken, so whatever they could read is
        pinned.

    Raises
    ------
    TraceError
        When the forward cannot be captured; the message says where and why.

    Examples
    --------
    >>> import torch, pruning
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> network = pruning.trace(model, torch.ones(2, 4))
    >>> print(network.groups[0])
    0.weight[0]: 8 (plain), 3 tensors
    """
    bare = unwrapped(model)
    examples = [_example(args, kwargs), *(_example(*other) for other in more)]
    tracer = _Tracer(bare, outputs)
    for example_args, example_kwargs in examples:
        paths = [tracer.add(p) for p in captures(bare, example_args, example_kwargs)]
        tracer.returns(paths)
    return tracer.network(tuple(examples), ignore_unread)


def _example(args: Any, kwargs: Mapping[str, Any] | None = None) -> Example:
    return (args if isinstance(args, tuple) else (args,)), dict(kwargs or {})


class _Tracer:
    """Shares the axes of a model's tensors between several captured runs."""

    def __init__(self, model: nn.Module, outputs: Ends) -> None:
        self.ends = outputs
        self.interpreter = Interpreter()
        named: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
        self.parameters = frozenset(named)
        named.update(model.named_buffers(remove_duplicate=False))
        self.tensors = named
        self.saved = [name for name in model.state_dict() if name in named]
        self.canonical: dict[int, str] = {}
        for name in [*self.saved, *named]:
            self.canonical.setdefault(id(named[name]), name)
        self.axes: dict[str, Value] = {}
        self.parts: dict[str, Part] = {}
        self.used: set[str] = set()
        self.outputs: list[tuple[tuple[Axis, ...], ...]] = []
        self.memory: dict[int, set[str]] = defaultdict(set)
        self._pin_overlaps()

    def _pin_overlaps(self) -> None:
        """Tensors that share memory in part cannot be moved one by one."""
        for tensor in self.tensors.values():
            place = _memory(tensor)
            if place is not None:
                self.memory[place].add(self.canonical[id(tensor)])
        for names in self.memory.values():
            for name in names if len(names) > 1 else ():
                self._pin_shared(name, sorted(names - {name})[0])

    def _pin_shared(self, name: str, other: str) -> None:
        for of in self.value(name).axes:
            pin(of, f"shares memory with {other}")

    def value(self, name: str, node: torch.fx.Node | None = None) -> Value:
        """Return the axes of a parameter or buffer; tied names have one value.

        A parameter whose placeholder is only cut up is a stack of pieces.
        """
        tensor = self.tensors[name]
        name = self.canonical[id(tensor)]
        if name not in self.axes:
            cuts = None if node is None else stacked_parameter(node)
            self.axes[name] = self._fresh(name, tensor, cuts)
        return self.axes[name]

    def _fresh(
        self, name: str, tensor: torch.Tensor, cuts: tuple[int, list[int]] | None = None
    ) -> Value:
        shape = list(tensor.shape)
        movable = name in self.saved and (name in self.parameters or tensor.is_floating_point())
        if not movable:
            return self.interpreter.constant(tensor, name)
        if cuts is not None:
            return self._stack(name, shape, *cuts)
        origin = Origin(name, tuple(range(len(shape))))
        return Value(fresh(shape, label=name).axes, origin=origin)

    def _stack(self, name: str, shape: list[int], dim: int, counts: list[int]) -> Value:
        """Return a parameter as pieces along one dimension, each with axes of its own."""
        slices, start = [], 0
        for count in counts:
            where = ", ".join([*[":"] * dim, f"{start}:{start + count}"])
            piece = f"{name}[{where}]"
            self.parts[piece] = Part(name, dim, start, count)
            sizes = [*shape[:dim], count, *shape[dim + 1 :]]
            origin = Origin(piece, tuple(range(len(shape))))
            slices.append(Value(fresh(sizes, label=piece).axes, origin=origin))
            start += count
        return stack_of(dim, slices)

    def _owned(self) -> dict[str, Value]:
        """Return the values of all saved tensors; stacks whose pieces are tied are whole again."""
        found: dict[str, Value] = {}
        for name in dict.fromkeys(self.canonical[id(self.tensors[name])] for name in self.saved):
            value = self.value(name)
            if value.stacked is not None and _alike(*value.stacked):
                settle(value)
            if value.stacked is None:
                found[name] = value
                continue
            pieces = [piece for piece, part in self.parts.items() if part.base == name]
            found.update(zip(pieces, value.stacked[1], strict=True))
        self.parts = {piece: part for piece, part in self.parts.items() if piece in found}
        return found

    def add(self, program: ExportedProgram) -> list[Value]:
        """Interpret one captured run, and return what the model returned."""
        signature, graph = program.graph_signature, program.graph_module
        lifted = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        constants = signature.inputs_to_lifted_tensor_constants
        env: dict[torch.fx.Node, Any] = {}
        for node in graph.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in lifted:
                name = lifted[node.name]
                env[node] = self.value(name, node)
                if node.users:
                    self.used.add(self.canonical[id(self.tensors[name])])
            elif node.name in constants:
                name = constants[node.name]
                held = program.constants[name]
                env[node] = self.interpreter.constant(held, name)
                for other in self.memory.get(_memory(held) or 0, ()):
                    self._pin_shared(other, f"the constant {name}")
            else:
                env[node] = self._input(node)
        found = self.interpreter.run(graph, env)
        return self._finish(signature.output_specs, found)

    def _input(self, node: torch.fx.Node) -> Any:
        tensor = node.meta.get("val")
        if not isinstance(tensor, torch.Tensor):
            return tensor
        shape = self.interpreter.sizes.shape(tensor)
        return fresh(shape, f"model input {node.name}", label=node.name)

    def _finish(self, specs: Sequence[Any], found: Sequence[Any]) -> list[Value]:
        """Pin what the model returns; a buffer it updates keeps the buffer's axes."""
        returned = []
        for spec, item in zip(specs, found, strict=True):
            for value in values([item]):
                settle(value)
                if spec.kind == OutputKind.BUFFER_MUTATION:
                    held = self.value(spec.target)
                    for of, other in zip(held.axes, value.axes, strict=True):
                        unify(of, other)
                else:
                    free = len(value.axes) - 1 if self.ends == "free" else len(value.axes)
                    for of in value.axes[:free]:
                        pin(of, "model output")
                    if spec.kind == OutputKind.USER_OUTPUT:
                        returned.append(value)
        return returned

    def returns(self, paths: Sequence[Sequence[Value]]) -> None:
        """Let all paths of one example return their outputs in one order."""
        first = paths[0]
        for other in paths[1:]:
            if [value.shape for value in other] == [value.shape for value in first]:
                for one, two in zip(first, other, strict=True):
                    for of, with_ in zip(one.axes, two.axes, strict=True):
                        unify(of, with_)
                continue
            for value in (*first, *other):
                for of in value.axes:
                    pin(of, "model output, one of several forms")
        self.outputs.append(tuple(tuple(value.axes) for value in first))

    def _pin_dead(self, owned: Mapping[str, Value]) -> None:
        """Pin what ends nowhere: another input may read it (a table's rows past a length).

        What is free and matters is summed or normalised over somewhere, or returned.
        """
        mixed = (leaf for _, axes in self.interpreter.facts.mixed for leaf in leaves(axes))
        live = {*mixed, *(leaf for some in self.outputs for axes in some for leaf in _all(axes))}
        for value in owned.values():
            for leaf in _all(value.axes):
                if leaf not in live and not leaf.pins:
                    leaf.pins["nothing that was captured reads it"] = None

    def network(self, examples: tuple[Example, ...], ignored: Sequence[str]) -> Network:
        """Return what was found."""
        interpreter = self.interpreter
        canonical = {name: self.canonical[id(self.tensors[name])] for name in self.saved}
        bases = {piece: part.base for piece, part in self.parts.items()}
        owned = self._owned()
        dead = [n for n in owned if bases.get(n, n) not in self.used and owned[n].shape]
        dead = [name for name in dead if size_of(owned[name]) > 1]
        pin_unread(
            {name: owned[name].shape for name in dead},
            ignored,
            [*interpreter.seen, *owned.values()],
        )
        for of in (of for name in dead for of in owned[name].axes):
            pin(of, "not read by any captured run")
        self._pin_dead(owned)
        whole = {name: self.tensors[canonical[name]] for name in dict.fromkeys(canonical.values())}
        read = {
            (name if name in owned else bases.get(name, name), dim)
            for name, dim in interpreter.facts.read
        }
        first = [owned[name].axes[dim] for name, dim in sorted(read) if name in owned]
        seen = [*interpreter.seen, *interpreter.facts.formed]
        found = orbits(seen, interpreter.facts, owned.values(), first)
        axes = {name: tuple(value.axes) for name, value in owned.items()}
        groups, named = _groups(found, axes, read)
        return Network(
            groups=groups,
            pins=tuple(_pins(axes)),
            unread=tuple(dead),
            unknown=dict(interpreter.unknown),
            aliases={name: own for name, own in canonical.items() if name != own},
            tensors={
                name: self.parts[name].of(whole[bases[name]]) if name in self.parts else whole[name]
                for name in owned
            },
            whole=whole,
            parts=dict(self.parts),
            axes=axes,
            orbits=named,
            read=frozenset(read),
            computed=frozenset(interpreter.facts.computed),
            outputs=tuple(self.outputs),
            examples=examples,
        )


def _all(axes: Iterable[Axis]) -> Iterator[Atom]:
    return (leaf for of in axes for leaf in leaves(of))


def _memory(tensor: Any) -> int | None:
    """Return where a tensor's storage begins; None where it has none of its own."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (RuntimeError, NotImplementedError, AttributeError):
        return None  # meta, sparse, or wrapped by a subclass


def _alike(dim: int, slices: Sequence[Value]) -> bool:
    """Whether all slices have the same axes but for the stacked one."""
    kept = [[flat(of) for at, of in enumerate(one.axes) if at != dim] for one in slices]
    return all(axes == kept[0] for axes in kept)


def size_of(value: Value) -> int:
    """Return the number of entries of a value."""
    return size(atom for of in value.axes for atom in of)


def _groups(
    found: Sequence[Orbit], axes: Mapping[str, tuple[Axis, ...]], read: set[tuple[str, int]]
) -> tuple[tuple[Group, ...], dict[str, Orbit]]:
    """Return groups in the order in which they have to be applied, and their orbits by name."""
    members = _members(axes, read)
    groups: list[Group] = []
    named: dict[str, Orbit] = {}
    for orbit in found:
        own = tuple(dict.fromkeys(m for leaf in orbit.leaves for m in members[leaf]))
        own = _joined(own)
        name = _name(own, named)
        named[name] = orbit
        blocks = blocks_of(orbit)
        kind = "plain" if all(member.block == 1 for member in own) else "of blocks"
        groups.append(
            Group(name, size(orbit.leaves), blocks, "within blocks" if blocks > 1 else kind, own)  # type: ignore[arg-type]
        )
    return tuple(groups), named


def _joined(members: tuple[Member, ...]) -> tuple[Member, ...]:
    """Keep the innermost of the places that a joint group has in one dimension."""
    least: dict[tuple[str, int], Member] = {}
    for member in members:
        key = member.tensor, member.dim
        if key not in least or member.block < least[key].block:
            least[key] = member
    return tuple(least.values())


def _members(
    axes: Mapping[str, tuple[Axis, ...]], read: set[tuple[str, int]]
) -> dict[Atom, list[Member]]:
    found: dict[Atom, list[Member]] = defaultdict(list)
    for name, dims in axes.items():
        for dim, of in enumerate(dims):
            for leaf, block in _blocks(of):
                found[leaf].append(Member(name, dim, _role(name, dim, dims, read), block))
    return found


def _blocks(of: Axis, inner: int = 1) -> Iterator[tuple[Atom, int]]:
    """Yield each leaf of an axis with the number of positions inside one of its items."""
    from pruning.axes import parts_of

    product = flat(of)
    for index, atom in enumerate(product):
        block = inner * size(product[index + 1 :])
        if atom.parts is None:
            yield atom, block
        else:
            for part in parts_of(atom):
                yield from _blocks(part, block)


def _role(name: str, dim: int, dims: Sequence[Axis], read: set[tuple[str, int]]) -> Role:
    if (name, dim) in read:
        return "reads"
    return "writes" if sum(size(of) > 1 for of in dims) > 1 else "follows"


def _name(members: Sequence[Member], taken: Mapping[str, Any]) -> str:
    writers = [member for member in members if member.role == "writes"]
    first = (writers or list(members))[0]
    name, count = f"{first.tensor}[{first.dim}]", 1
    while name in taken:
        count += 1
        name = f"{first.tensor}[{first.dim}]/{count}"
    return name


def _pins(axes: Mapping[str, tuple[Axis, ...]]) -> Iterator[Pin]:
    for name, dims in axes.items():
        for dim, of in enumerate(dims):
            if size(of) < 2:
                continue
            found = list(leaves(of))
            reasons = dict.fromkeys(reason for leaf in found for reason in leaf.pins)
            if not found:
                reasons = {"its positions are told apart one by one": None}
            if reasons:
                yield Pin(name, dim, size(of), tuple(reasons))
