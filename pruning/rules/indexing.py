"""Operators that look positions up or write them: what is looked up keeps its order."""

from __future__ import annotations

from collections.abc import Sequence

from pruning.axes import axis, flat, size, unify
from pruning.rules.base import Call, Result, Table, Value, align, fresh, opaque, table


def embedding(call: Call) -> Result:
    """Look up rows of a table; the features pass."""
    weight, ids = call.tensor("weight"), call.tensor("indices")
    call.pin(weight.axes[0], "rows are looked up by id")
    return Value([*ids.axes, weight.axes[1]])


def embedding_bag(call: Call) -> Result:
    """Sum rows of a table over bags; the features pass."""
    weight = call.tensor("weight")
    features = weight.axes[1]
    call.forget(features)
    for value in call.tensors():
        if value is not weight:
            for of in value.axes:
                call.pin(of, "rows are looked up by id")
    call.pin(weight.axes[0], "rows are looked up by id")
    call.mix(weight, weight.axes[0])
    reason = "embedding_bag: one position for each bag"
    bags = fresh(call.shapes[0][:1], reason).axes
    return [Value([*bags, features]), *(fresh(shape, reason) for shape in call.shapes[1:])]


def index_select(call: Call) -> Result:
    """Take listed positions of one dimension."""
    value, ids = call.tensor("self"), call.tensor("index")
    dim = call.dim(len(value.axes))
    call.pin(value.axes[dim], "positions are looked up")
    call.mix(value, value.axes[dim])
    return value.replaced(dim, [ids.axes[0] if ids.axes else ()])


def gather(call: Call) -> Result:
    """Look up positions of one dimension entry by entry; the others take one order."""
    value, ids = call.tensor("self"), call.tensor("index", "indices")
    dim = call.dim(len(value.axes))
    call.pin(value.axes[dim], "positions are looked up")
    call.mix(value, value.axes[dim])
    wide = Value(list(ids.axes))
    if call.op == "take_along_dim":  # positions are broadcast against what they look up
        for at, of in enumerate(value.axes):
            if at != dim and size(flat(ids.axes[at])) == 1:
                wide.axes[at] = of
    _paired(call, value, wide, dim)
    return wide


def _paired(call: Call, value: Value, other: Value, dim: int) -> None:
    """Tie all dimensions but one; where one tensor covers only part of the other, pin."""
    for at, (of, with_) in enumerate(zip(value.axes, other.axes, strict=True)):
        if at == dim:
            continue
        if size(flat(of)) == size(flat(with_)):
            unify(of, with_)
        else:
            call.pin(of, "covers part of an axis")
            call.pin(with_, "covers part of an axis")


def _lookups(call: Call) -> list[tuple[int, Value]]:
    """Return (dimension, positions) for each dimension that is looked up."""
    return [(dim, ids) for dim, ids in enumerate(call.args["indices"]) if ids is not None]


def index(call: Call) -> Result:
    """Take positions of some dimensions by tensors of positions, or by a mask."""
    value, lookups = call.tensor("self"), _lookups(call)
    masks = [ids for _, ids in lookups if _is_mask(call, ids)]
    if masks:
        return _masked(call, value, lookups)
    dims = [dim for dim, _ in lookups]
    for dim in dims:
        call.pin(value.axes[dim], "positions are looked up")
    call.mix(value, *(value.axes[dim] for dim in dims))
    ids = [ids for _, ids in lookups]
    found = align(ids, max(len(one.axes) for one in ids))
    rest = [of for dim, of in enumerate(value.axes) if dim not in dims]
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    front = dims[0] if adjacent else 0
    return Value([*rest[:front], *found, *rest[front:]])


def _is_mask(call: Call, ids: Value) -> bool:
    return id(ids) in call.masks


def _masked(call: Call, value: Value, lookups: Sequence[tuple[int, Value]]) -> Result:
    """Take the positions where a mask holds: their dimensions keep their order."""
    if len(lookups) != 1:
        return opaque(call, "index by several masks")
    dim, mask = lookups[0]
    taken = value.axes[dim : dim + len(mask.axes)]
    for of in (*taken, *mask.axes):
        call.pin(of, "positions are chosen by a mask")
    call.mix(value, *taken)
    chosen = fresh(call.shape[dim : dim + 1], "index: positions chosen by a mask").axes
    return Value([*value.axes[:dim], *chosen, *value.axes[dim + len(mask.axes) :]])


def index_put(call: Call) -> Result:
    """Write positions of the leading dimensions; the others take one order."""
    value, lookups, source = call.tensor("self"), _lookups(call), call.tensor("values")
    dims = [dim for dim, _ in lookups]
    if any(_is_mask(call, ids) for _, ids in lookups) or dims != list(range(len(dims))):
        return opaque(call, "index_put by a mask or past the leading dimensions")
    for dim in dims:
        call.pin(value.axes[dim], "positions are written")
    call.mix(value, *(value.axes[dim] for dim in dims))
    ids = [ids for _, ids in lookups]
    where = align(ids, max(len(one.axes) for one in ids))
    for of in where:
        call.pin(of, "positions are written")
    rest = value.axes[len(dims) :]
    align([Value([*where, *rest]), source], max(len(where) + len(rest), len(source.axes)))
    return Value(value.axes)


def scatter(call: Call) -> Result:
    """Write entries along one dimension at looked-up positions."""
    value, ids = call.tensor("self"), call.tensor("index")
    source = call.args.get("src", call.args.get("source"))
    dim = call.dim(len(value.axes))
    call.pin(value.axes[dim], "positions are written")
    call.mix(value, value.axes[dim])
    others = [ids, source] if isinstance(source, Value) else [ids]
    for other in others:
        if len(other.axes) != len(value.axes):
            if len(other.axes) > 1:
                return opaque(call, f"{call.op}: tensors of several ranks")
            for of in other.axes:
                call.pin(of, "positions are written")
            continue
        call.pin(other.axes[dim], "positions are written")
        _paired(call, value, other, dim)
    return Value(value.axes)


def index_fill(call: Call) -> Result:
    """Write one number at listed positions of a dimension."""
    value, ids = call.tensor("self"), call.tensor("index")
    dim = call.dim(len(value.axes))
    for of in (value.axes[dim], *ids.axes):
        call.pin(of, "positions are written")
    return Value(value.axes)


def one_hot(call: Call) -> Result:
    """Return a new dimension of classes."""
    value = next(call.tensors())
    reason = "one_hot: classes have a meaning"
    return Value([*value.axes, axis(call.shape[-1], "classes", reason)])


def nonzero(call: Call) -> Result:
    """Return the places of what is not zero, in order."""
    return opaque(call, f"{call.op}: places are listed in order")


def searched(call: Call) -> Result:
    """Return each entry's place among sorted boundaries."""
    value = call.tensor("self")
    for other in call.tensors():
        if other is not value:
            for of in other.axes:
                call.pin(of, "boundaries are sorted")
    return Value(value.axes)


TABLE: Table = table(
    (embedding, "embedding"),
    (embedding_bag, "embedding_bag _embedding_bag _embedding_bag_forward_only"),
    (index_select, "index_select"),
    (gather, "gather take_along_dim"),
    (index, "index _unsafe_index"),
    (index_put, "index_put _index_put_impl _unsafe_index_put"),
    (scatter, "scatter scatter_add scatter_reduce index_add index_copy index_reduce"),
    (index_fill, "index_fill"),
    (one_hot, "one_hot"),
    (nonzero, "nonzero argwhere nonzero_static masked_select"),
    (searched, "bucketize"),
)
