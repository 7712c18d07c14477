"""Walk a captured graph once and let every operator's rule speak about the axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from pruning.axes import Conflict, leaves, pin, unify
from pruning.lookahead import stacked_dimension
from pruning.ops import Sizes, bound, op_name
from pruning.rules import KEEPS_SLICES, RULES
from pruning.rules.base import (
    Call,
    Facts,
    Result,
    Rule,
    Value,
    fresh,
    opaque,
    settle,
    values,
)

INLINED = frozenset(("wrap_with_set_grad_enabled", "wrap_with_autocast"))


class Interpreter:
    """The axes of every value of one or several graphs, and what was said about them."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.seen: list[Value] = []
        self.unknown: dict[str, str] = {}
        self.sizes = Sizes()

    def run(self, graph: GraphModule, env: dict[Node, Any]) -> Any:
        """Interpret a graph whose placeholders are in `env`; return its outputs."""
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                env[node] = self._constant(graph, node)
            elif node.op == "call_function":
                env[node] = self._called(node, env)
            elif node.op == "output":
                return torch.fx.map_arg(node.args[0], lambda item: env[item])
            self._note(env.get(node))
        return None

    def _note(self, found: Any) -> None:
        self.seen.extend(values([found]))

    def _constant(self, graph: GraphModule, node: Node) -> Any:
        found: Any = graph
        for part in str(node.target).split("."):
            found = getattr(found, part)
        return self.constant(found, str(node.target)) if isinstance(found, torch.Tensor) else found

    def constant(self, tensor: torch.Tensor, name: str) -> Value:
        """Return the axes of a tensor that cannot move: pinned where its entries differ."""
        value = fresh(self.sizes.shape(tensor), label=name)
        differs = [dim for dim, count in enumerate(tensor.shape) if _differs(tensor, dim, count)]
        for dim in differs:
            pin(value.axes[dim], f"constant {name} differs along it")
        value.uniform = not differs
        return value

    def _called(self, node: Node, env: dict[Node, Any]) -> Any:
        name = op_name(node)
        args: Any = torch.fx.map_arg(node.args, lambda item: env[item])
        kwargs: Any = torch.fx.map_arg(node.kwargs, lambda item: env[item])
        if name == "getitem":
            return args[0][args[1]]
        if name in INLINED:
            return self._inlined(node, args)
        if name == "cond":
            return self._branches(args)
        found = node.meta.get("val")
        if isinstance(found, torch.SymInt | int):
            return self.sizes(found)
        if isinstance(found, torch.SymFloat | torch.SymBool | float | bool):
            return found
        return self._operator(node, name, args, kwargs)

    def _inlined(self, node: Node, args: Sequence[Any]) -> Any:
        at = next(index for index, item in enumerate(args) if isinstance(item, GraphModule))
        return self._inner(args[at], args[at + 1 :])

    def _inner(self, graph: GraphModule, args: Sequence[Any]) -> Any:
        holders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        return self.run(graph, dict(zip(holders, args, strict=True)))

    def _branches(self, args: Sequence[Any]) -> Any:
        """Tie the results of both branches, which have the same inputs."""
        for value in values(args[:1]):
            for of in value.axes:
                pin(of, "cond: decides a branch")
        first, second = (self._inner(graph, args[3]) for graph in args[1:3])
        for one, two in zip(values([first]), values([second]), strict=True):
            settle(one)
            settle(two)
            one.uniform = one.uniform and two.uniform
            for of, other in zip(one.axes, two.axes, strict=True):
                unify(of, other)
        return first

    def _operator(self, node: Node, name: str, args: Any, kwargs: Any) -> Any:
        found = node.meta.get("val")
        single = isinstance(found, torch.Tensor)
        tensors = [found] if single else [item for item in found or () if item is not None]
        shapes = [self.sizes.shape(item) for item in tensors if isinstance(item, torch.Tensor)]
        is_aten = isinstance(node.target, torch._ops.OpOverload)  # noqa: SLF001
        named = bound(node, args, kwargs) if is_aten else {str(i): a for i, a in enumerate(args)}
        call = Call(name, node.name, named, shapes, single, self.facts)
        call.cuts = stacked_dimension(node)
        call.masks = _masks(node, args)
        call.used = None if single else _used(node)
        if name not in KEEPS_SLICES:
            for value in call.tensors():
                settle(value)
        return _spread(found, self._apply(call, RULES.get(name)))

    def _apply(self, call: Call, rule: Rule | None) -> list[Value | None]:
        """Apply a rule and hold it to its word: right sizes, and no dimension passed over."""
        if rule is None:
            return self._unknown(call, f"no rule for operator {call.op} ({call.node})")
        try:
            found = _listed(rule(call))
        except Conflict as conflict:
            return _listed(opaque(call, f"{call.op}: {conflict}"))
        except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
            reason = f"the rule for {call.op} does not cover {call.node}: {error}"
            return self._unknown(call, reason)
        if call.shapes and [value and value.shape for value in found] != call.shapes:
            return self._unknown(call, f"the rule for {call.op} misjudged {call.node}")
        self._hold(call, found)
        return found

    def _unknown(self, call: Call, reason: str) -> list[Value | None]:
        self.unknown.setdefault(call.op, reason)
        return _listed(opaque(call, reason))

    @staticmethod
    def _hold(call: Call, found: Iterable[Value | None]) -> None:
        """Pin what came in, did not come out, and was not spoken of."""
        passed = {leaf for value in values(found) for of in value.axes for leaf in leaves(of)}
        spoken = {atom.root for atom in call.spoken} | passed
        spoken |= {leaf for atom in call.spoken for leaf in leaves((atom,))}
        spoken |= {leaf for v in values(found) if v.stacked for leaf in _slice_leaves(v)}
        for value in call.tensors():
            if value.uniform or value.stacked is not None:
                continue
            for of in value.axes:
                for leaf in leaves(of):
                    if leaf not in spoken and not leaf.pins:
                        pin((leaf,), f"{call.op} ({call.node}) does not pass it on")


def _slice_leaves(value: Value) -> Iterable[Any]:
    assert value.stacked is not None
    return [leaf for one in value.stacked[1] for of in one.axes for leaf in leaves(of)]


def _listed(found: Result) -> list[Value | None]:
    if found is None:
        return []
    return [found] if isinstance(found, Value) else list(found)


def _spread(meta: Any, found: list[Value | None]) -> Any:
    """Lay values out as the node returns them."""
    if isinstance(meta, torch.Tensor):
        return found[0]
    if isinstance(meta, list | tuple):
        left = iter(found)
        return [next(left, None) if isinstance(item, torch.Tensor) else None for item in meta]
    return None


def _masks(node: Node, args: Any) -> frozenset[int]:
    """Return the identities of the arguments that are boolean."""
    nodes = pytree.tree_leaves(node.args)
    found = pytree.tree_leaves(args, is_leaf=lambda item: isinstance(item, Value))
    return frozenset(
        id(value)
        for item, value in zip(nodes, found, strict=False)
        if isinstance(item, Node) and _is_boolean(item.meta.get("val"))
    )


def _used(node: Node) -> frozenset[int]:
    """Return which of several results anything takes."""
    return frozenset(
        int(user.args[1])  # type: ignore[arg-type]
        for user in node.users
        if op_name(user) == "getitem" and user.users
    )


def _is_boolean(found: Any) -> bool:
    return isinstance(found, torch.Tensor) and found.dtype in (torch.bool, torch.uint8)


def _differs(tensor: torch.Tensor, dim: int, count: int) -> bool:
    """Whether the entries of a constant change along a dimension; assumed without data."""
    if count < 2:
        return False
    if tensor.is_meta or isinstance(tensor, torch._subclasses.FakeTensor):  # noqa: SLF001
        return True
    first = tensor.narrow(dim, 0, 1)
    same = (tensor == first) | ((tensor != tensor) & (first != first))
    return not bool(same.all())
