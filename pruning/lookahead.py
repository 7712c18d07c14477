"""Views whose new dimension is only cut up afterwards: fused projections.

``qkv.view(b, n, 3, heads, d)`` followed by three selections holds three independent tensors. Tying
them to one order would lose the freedom of the values, so a view's dimension that every later use
only indexes, slices or splits becomes a direct sum of the pieces that are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from pruning.ops import argument, op_name

if TYPE_CHECKING:
    from torch.fx import Node

MOST_PIECES = 64
CARRIES = frozenset(("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "_to_copy", "to"))
VIEWS = frozenset(("view", "_unsafe_view", "reshape", "unflatten"))

#: Pieces of a dimension that are taken, as (start, end).
Ends: TypeAlias = set[tuple[int, int]]
Handler: TypeAlias = "Callable[[Node, int, int, int], Ends | None]"


def stacked_dimension(node: Node) -> tuple[int, list[int]] | None:
    """Return the dimension of a view that is only cut up later and the sizes of its pieces."""
    if op_name(node) not in VIEWS or not isinstance(node.meta.get("val"), Tensor):
        return None
    shape = node.meta["val"].shape
    for dim in range(len(shape) - 1):
        total = shape[dim]
        if not isinstance(total, int) or total < 2:
            continue
        taken = _ends(node, dim, total)
        if taken is not None:
            counts = _counts(taken, total)
            if 1 < len(counts) <= MOST_PIECES:
                return dim, counts
    return None


def stacked_parameter(node: Node) -> tuple[int, list[int]] | None:
    """Return the dimension of a parameter that is only cut up, every piece used, and the sizes."""
    shape = node.meta["val"].shape
    for dim in range(len(shape) - 1):
        total = shape[dim]
        taken = _ends(node, dim, total) if total > 1 else None
        if taken is None or max(shape[:dim] + shape[dim + 1 :]) < 2:
            continue
        counts = _counts(taken, total)
        covered = {at for start, end in taken for at in range(start, end)}
        if len(covered) == total and 1 < len(counts) <= MOST_PIECES:
            return dim, counts
    return None


def _counts(taken: Ends, total: int) -> list[int]:
    marks = sorted({end for piece in taken for end in piece if 0 < end < total} | {total})
    return [end - start for start, end in zip([0, *marks], marks, strict=False)]


def _ends(node: Node, dim: int, total: int) -> Ends | None:
    """Return where the pieces of a dimension end, or None where it is used whole."""
    found: Ends = set()
    for user in node.users:
        ends = _use(user, node, dim, total)
        if ends is None:
            return None
        found |= ends
    return found if node.users else None


def _use(user: Node, node: Node, dim: int, total: int) -> Ends | None:
    name, rank = op_name(user), len(node.meta["val"].shape)
    if name in CARRIES:
        return _ends(user, dim, total)
    handler = HANDLERS.get(name)
    return None if handler is None or user.args[0] is not node else handler(user, dim, rank, total)


def _select(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    at = argument(user, "dim", 0) % rank
    if at != dim:
        return _ends(user, dim - (at < dim), total)
    index = argument(user, "index", 0) % total
    return {(index, index + 1)}


def _unbind(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    if argument(user, "dim", 0) % rank != dim:
        return None
    return {(at, at + 1) for at in range(total) if _is_used(user, at)}


def _slice(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    if argument(user, "dim", 0) % rank != dim:
        return _ends(user, dim, total)
    start, end = argument(user, "start", 0) or 0, argument(user, "end", None)
    if argument(user, "step", 1) != 1 or not isinstance(start, int):
        return None
    count = user.meta["val"].shape[dim]
    if count == total:
        return _ends(user, dim, total)
    start = start + total if start < 0 else start
    return {(start, start + count)} if end is None or isinstance(end, int) else None


def _split(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    if argument(user, "dim", 0) % rank != dim:
        return None
    found: Ends = set()
    start = 0
    for index, piece in enumerate(user.meta["val"]):
        count = piece.shape[dim]
        found |= {(start, start + count)} if _is_used(user, index) else {(start, start)}
        start += count
    return found


def _is_used(user: Node, index: int) -> bool:
    """Whether one of several results is taken by anything."""
    return any(getter.args[1] == index and getter.users for getter in user.users)


def _permute(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    order = [at % rank for at in argument(user, "dims", ())]
    return _ends(user, order.index(dim), total)


def _transpose(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    one, two = (argument(user, name, 0) % rank for name in ("dim0", "dim1"))
    return _ends(user, {one: two, two: one}.get(dim, dim), total)


def _unsqueeze(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    at = argument(user, "dim", 0) % (rank + 1)
    return _ends(user, dim + (at <= dim), total)


def _squeeze(user: Node, dim: int, rank: int, total: int) -> Ends | None:
    dims = argument(user, "dim", None)
    if dims is None:
        return None
    gone = {at % rank for at in ([dims] if isinstance(dims, int) else dims)}
    shape = user.args[0].meta["val"].shape  # type: ignore[union-attr]
    gone = {at for at in gone if shape[at] == 1}
    return None if dim in gone else _ends(user, dim - sum(at < dim for at in gone), total)


HANDLERS: dict[str, Handler] = {
    "select": _select,
    "unbind": _unbind,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _split,
    "permute": _permute,
    "transpose": _transpose,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
}
