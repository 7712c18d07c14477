"""Operators that lay tensors end to end or take pieces of them: direct sums."""

from __future__ import annotations

from pruning.axes import Axis, Conflict, axis, direct_sum, flat, pin, sections, size, split, unify
from pruning.rules.base import (
    Call,
    Result,
    Table,
    Value,
    align,
    carried,
    fresh,
    opaque,
    settle,
    stack_of,
    table,
    values,
)


def concat(call: Call) -> Result:
    """One dimension is laid end to end, the others take one order."""
    laid = [value for value in values(call.args["tensors"]) if value.shape != [0]]
    rank = len(laid[0].axes)
    dim = call.dim(rank)
    axes = align([Value([*v.axes[:dim], (), *v.axes[dim + 1 :]]) for v in laid], rank)
    axes[dim] = direct_sum([value.axes[dim] for value in laid])
    return Value(axes, tuple(leaf for value in laid for leaf in value.rows))


def stack(call: Call) -> Result:
    """Add a dimension, one position for each tensor; they stay apart while it is only indexed."""
    laid = list(values(call.args["tensors"]))
    dim = call.dim(len(laid[0].axes) + 1)
    return stack_of(
        dim, [Value([*v.axes[:dim], (), *v.axes[dim:]], v.rows, v.uniform) for v in laid]
    )


def _pieces(call: Call, value: Value, dim: int, sizes: list[int]) -> list[Value]:
    """Cut a dimension into pieces; a cut that is impossible pins it."""
    if value.stacked is not None and value.stacked[0] == dim:
        found = _stacked_pieces(value, dim, sizes)
        if found is not None:
            return found
        settle(value)
    try:
        cuts = sections(value.axes[dim], sizes)
    except Conflict as conflict:
        reason = f"{call.op}: {conflict}"
        pin(value.axes[dim], reason)
        cuts = [axis(count, "", reason) for count in sizes]
    for of in cuts:
        call.forget(of)
    return [carried(value, lambda one, of=of: one.replaced(dim, [of])) for of in cuts]  # type: ignore[misc]


def _stacked_pieces(value: Value, dim: int, sizes: list[int]) -> list[Value] | None:
    """Hand out whole slices of a stacked dimension, or None where a piece cuts through one."""
    assert value.stacked is not None
    left = list(value.stacked[1])
    found = []
    for count in sizes:
        taken: list[Value] = []
        while sum(size(flat(one.axes[dim])) for one in taken) < count and left:
            taken.append(left.pop(0))
        if sum(size(flat(one.axes[dim])) for one in taken) != count:
            return None
        found.append(stack_of(dim, taken))
    return found


def split_up(call: Call) -> Result:
    """Consecutive pieces of one dimension."""
    value = next(call.tensors())
    dim = call.dim(len(value.axes))
    return _pieces(call, value, dim, [shape[dim] for shape in call.shapes])


def slice_(call: Call) -> Result:
    """One piece of a dimension, or every k-th position."""
    value = call.tensor("self")
    dim = call.dim(len(value.axes))
    total, count = value.shape[dim], call.shape[dim]
    step, start = call.get("step", 1), call.get("start", 0)
    start = max(start + total, 0) if start < 0 else min(start, total)
    if count == total:
        return carried(value, lambda one: Value(one.axes, one.rows, one.uniform, one.origin))
    call.forget(value.axes[dim])
    if count == 0:
        return value.replaced(dim, [axis(0)])
    if step != 1:
        return _strided(call, settle(value), dim, step)
    sizes = [part for part in (start, count, total - start - count) if part]
    return _pieces(call, value, dim, sizes)[1 if start else 0]


def _strided(call: Call, value: Value, dim: int, step: int) -> Value:
    """Every k-th position: blocks of k keep their inside and may move as blocks."""
    total, count = value.shape[dim], call.shape[dim]
    reason = f"slice with step {step}"
    if total == count * step:
        try:
            major, minor = split(value.axes[dim], step)
        except Conflict:
            pass
        else:
            pin(minor, reason)
            return value.replaced(dim, [major])
    pin(value.axes[dim], reason)
    return value.replaced(dim, [axis(count, "", reason)])


def select(call: Call) -> Result:
    """One position of a dimension (select), or each on its own (unbind)."""
    value = next(call.tensors())
    dim = call.dim(len(value.axes))
    total = value.shape[dim]
    if value.stacked is not None and value.stacked[0] == dim:
        singles = _stacked_pieces(value, dim, [1] * total)
        if singles is not None:
            dropped = [one.replaced(dim, []) for one in singles]
            return dropped[call.args["index"]] if call.op == "select" else dropped
        settle(value)
    call.pin(value.axes[dim], "one position is taken")
    to = None if value.stacked is None else value.stacked[0] - (value.stacked[0] > dim)
    taken = carried(value, lambda one: one.replaced(dim, []), to)
    return taken if call.op == "select" else [taken] * total


def slice_scatter(call: Call) -> Result:
    """Overwrite a piece of a dimension: source and piece take one order."""
    value, source = call.tensor("self"), call.tensor("src")
    dim = call.dim(len(value.axes))
    total, count = value.shape[dim], source.shape[dim]
    start = call.get("start", 0)
    start = max(start + total, 0) if start < 0 else min(start, total)
    if call.get("step", 1) != 1:
        return opaque(call, "slice_scatter with a step")
    if count == total:
        return Value(align([value, source], len(value.axes)))
    sizes = [part for part in (start, count, total - start - count) if part]
    piece = _pieces(call, value, dim, sizes)[1 if start else 0]
    piece.uniform = value.uniform
    axes = align([piece, source], len(value.axes))
    if value.uniform:
        laid = sections(value.axes[dim], sizes)
        laid[1 if start else 0] = axes[dim]
        axes[dim] = direct_sum(laid)
    else:
        axes[dim] = value.axes[dim]
    return Value(axes)


def select_scatter(call: Call) -> Result:
    """One position of a dimension is overwritten."""
    value, source = call.tensor("self"), call.tensor("src")
    dim = call.dim(len(value.axes))
    call.pin(value.axes[dim], "one position is written")
    rest = Value([*value.axes[:dim], *value.axes[dim + 1 :]], uniform=value.uniform)
    axes = align([rest, source], len(source.axes))
    return Value([*axes[:dim], value.axes[dim], *axes[dim:]])


def glu(call: Call) -> Result:
    """Multiply the first half by a gate of the second: both halves take one order."""
    value = call.tensor("self", "input")
    dim = call.dim(len(value.axes), -1)
    half = value.shape[dim] // 2
    first, second = _pieces(call, value, dim, [half, half])
    unify(first.axes[dim], second.axes[dim])
    return first


def pad(call: Call) -> Result:
    """Constant padding adds positions at the ends; other modes copy positions and pin."""
    value = call.tensor("self", "input")
    widths: list[int] = call.args.get("pad") or call.args.get("padding") or []
    constant = call.op == "constant_pad_nd" or call.get("mode", "") == "constant"
    axes = list(value.axes)
    for index in range(len(widths) // 2):
        dim = len(axes) - 1 - index
        low, high = widths[2 * index : 2 * index + 2]
        if low == high == 0:
            continue
        if constant and min(low, high) >= 0:
            axes[dim] = direct_sum([_extra(low), axes[dim], _extra(high)])
        else:
            axes[dim] = _repadded(call, axes[dim], call.shape[dim])
    return Value(axes)


def _extra(count: int) -> Axis:
    return axis(count, "padding")


def _repadded(call: Call, of: Axis, count: int) -> Axis:
    call.pin(of, "padding copies or drops positions")
    return axis(count, "", f"{call.op}: padding copies or drops positions")


def scattered(call: Call) -> Result:
    """Positions are written one by one along a diagonal or by a mask."""
    return opaque(call, f"{call.op}: positions are written one by one")


def shifted(call: Call) -> Result:
    """Flipped or rolled dimensions keep their order; the others pass."""
    value = call.tensor("self")
    rank = len(value.axes)
    dims = call.get("dims") or call.get("dim") or []
    named = {dim % rank for dim in ([dims] if isinstance(dims, int) else dims)}
    if not named:
        named = set(range(rank))
    axes = list(value.axes)
    for dim in named:
        call.pin(axes[dim])
    call.mix(value, *(axes[dim] for dim in named))
    kept = {dim: axis(count, "", f"{call.op}: order matters") for dim, count in _wide(value)}
    return Value([kept[dim] if dim in named else of for dim, of in enumerate(axes)])


def _wide(value: Value) -> list[tuple[int, int]]:
    return list(enumerate(value.shape))


def diagonal(call: Call) -> Result:
    """Two dimensions are read along their diagonal."""
    value = call.tensor("self")
    rank = len(value.axes)
    pair = {call.dim(rank, 0, "dim1"), call.dim(rank, 1, "dim2")}
    for dim in pair:
        call.pin(value.axes[dim])
    call.mix(value, *(value.axes[dim] for dim in pair))
    rest = [of for dim, of in enumerate(value.axes) if dim not in pair]
    return Value([*rest, *fresh(call.shape[-1:], "diagonal: order matters").axes])


TABLE: Table = table(
    (concat, "cat concat concatenate"),
    (stack, "stack"),
    (split_up, "split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk"),
    (split_up, "unsafe_split_with_sizes split_copy split_with_sizes_copy"),
    (slice_, "slice narrow slice_copy"),
    (select, "select unbind select_copy unbind_copy"),
    (slice_scatter, "slice_scatter"),
    (select_scatter, "select_scatter"),
    (glu, "glu"),
    (pad, "constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d"),
    (pad, "replication_pad1d replication_pad2d replication_pad3d _pad_circular"),
    (scattered, "diagonal_scatter masked_scatter as_strided_scatter as_strided"),
    (shifted, "flip roll fliplr flipud rot90"),
    (diagonal, "diagonal"),
)
