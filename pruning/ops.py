"""Names, arguments and sizes of the nodes of a captured graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import Node

_PRIMES = 10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079, 10091, 10093, 10099, 10103


def op_name(node: Node) -> str:
    """Return an operator's name without namespace `aten`, overload and trailing underscore."""
    if node.op != "call_function":
        return ""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):  # noqa: SLF001
        space, _, name = target._schema.name.partition("::")  # noqa: SLF001
        name = name if name.endswith("__") else name.rstrip("_")
        return name if space == "aten" else f"{space}::{name}"
    return str(getattr(target, "__name__", target))


def bound(node: Node, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of an operator by name, defaults included."""
    schema = node.target._schema  # type: ignore[union-attr]  # noqa: SLF001
    found = {item.name: item.default_value for item in schema.arguments}
    found.update(zip((item.name for item in schema.arguments), args, strict=False))
    found.update(kwargs)
    return found


def argument(node: Node, name: str, default: Any) -> Any:
    """Return one argument of an operator's node, by name."""
    found = bound(node, node.args, node.kwargs).get(name)
    return default if found is None else found


def outputs(node: Node) -> list[Any]:
    """Return what a node returns, as a list."""
    found = node.meta.get("val")
    return list(found) if isinstance(found, list | tuple) else [found]


class Sizes:
    """Turns sizes into integers; one that depends on data becomes a prime of its own.

    So a size that is not known before the run (the tokens of an expert) is equal to itself and to
    nothing else, and products of it with other sizes still divide as they should.
    """

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        """Return a size as an integer."""
        if isinstance(value, int):
            return value
        expression = value.node.expr
        for symbol in sorted(expression.free_symbols, key=str):
            self._known.setdefault(symbol, _PRIMES[len(self._known) % len(_PRIMES)])
        return int(expression.subs(self._known))

    def shape(self, tensor: torch.Tensor) -> list[int]:
        """Return the shape of a tensor."""
        return [self(value) for value in tensor.shape]


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested containers, in a fixed order."""
    leaves = torch.utils._pytree.tree_leaves(tree)  # noqa: SLF001
    yield from (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
