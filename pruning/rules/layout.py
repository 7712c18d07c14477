"""Operators that only rearrange dimensions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pruning.axes import Axis, Conflict, axis, flat, pin, rows_of, sections, size, split
from pruning.rules.base import (
    Call,
    Result,
    Shape,
    Table,
    Value,
    carried,
    fresh,
    opaque,
    settle,
    stack_of,
    table,
)


def view(call: Call) -> Result:
    """Keep the positions in row-major order, cut into other dimensions."""
    value = next(call.tensors())
    if 0 in call.shape:
        return fresh(call.shape)
    if call.shape == value.shape and value.stacked is None:
        return Value(value.axes, value.rows, value.uniform, value.origin)
    settle(value)
    try:
        return regroup(value, call.shape, call.cuts)
    except Conflict as conflict:
        for of in value.axes:
            pin(of, f"{call.op}: {conflict}")
        return fresh(call.shape, f"{call.op}: {conflict}")


def regroup(value: Value, shape: Shape, cuts: tuple[int, list[int]] | None) -> Value:
    """Return the value in another shape; `cuts` names a dimension that is only cut up later.

    Such a dimension becomes a direct sum of slices whose other axes are independent: the
    queries, keys and values in one fused projection.
    """
    whole = flat(atom for of in value.axes for atom in of)
    if cuts is None:
        return Value(rows_of(whole, shape), value.rows, value.uniform)
    dim, counts = cuts
    left, right = split(whole, prod(shape[dim:]))
    head = rows_of(left, shape[:dim])
    inner = shape[dim + 1 :]
    pieces = sections(right, [count * prod(inner) for count in counts])
    slices = [
        Value([*head, *rows_of(piece, [count, *inner])], value.rows)
        for piece, count in zip(pieces, counts, strict=True)
    ]
    return stack_of(dim, slices)


def permute(call: Call) -> Result:
    """Dimensions change places."""
    value = next(call.tensors())
    order = _order(call, len(value.axes))

    def moved(one: Value) -> Value:
        origin = one.origin
        if origin is not None:
            origin = replace(origin, dims=tuple(origin.dims[dim] for dim in order))
        return Value([one.axes[dim] for dim in order], one.rows, one.uniform, origin)

    return carried(value, moved, None if value.stacked is None else order.index(value.stacked[0]))


def _order(call: Call, rank: int) -> list[int]:
    if call.op == "permute":
        return [dim % rank for dim in call.args["dims"]]
    if call.op in ("movedim", "moveaxis"):
        return _moved(call, rank)
    order = list(range(rank))
    if call.op == "numpy_T":
        return order[::-1]
    if rank > 1:
        names = ("dim0", "dim1") if "dim0" in call.args else ("axis0", "axis1")
        one, two = call.dim(rank, -2, names[0]), call.dim(rank, -1, names[1])
        order[one], order[two] = order[two], order[one]
    return order


def _moved(call: Call, rank: int) -> list[int]:
    source, target = call.args["source"], call.args["destination"]
    source, target = (
        [dim % rank for dim in ([dims] if isinstance(dims, int) else dims)]
        for dims in (source, target)
    )
    order = [dim for dim in range(rank) if dim not in source]
    for place, dim in sorted(zip(target, source, strict=True)):
        order.insert(place, dim)
    return order


def unsqueeze(call: Call) -> Result:
    """Add a dimension of one position."""
    value = call.tensor("self")
    at = call.dim(len(value.axes) + 1)

    def put(one: Value) -> Value:
        origin = one.origin
        if origin is not None:
            origin = replace(origin, dims=(*origin.dims[:at], -1, *origin.dims[at:]))
        return Value([*one.axes[:at], (), *one.axes[at:]], one.rows, one.uniform, origin)

    to = None if value.stacked is None else value.stacked[0] + (at <= value.stacked[0])
    return carried(value, put, to)


def squeeze(call: Call) -> Result:
    """Drop dimensions of one position."""
    value = call.tensor("self")
    rank = len(value.axes)
    dims = call.get("dim", list(range(rank)))
    named = {dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)}
    shape = value.shape
    keep = [dim for dim in range(rank) if dim not in named or shape[dim] != 1]

    def taken(one: Value) -> Value:
        origin = one.origin
        if origin is not None:
            origin = replace(origin, dims=tuple(origin.dims[dim] for dim in keep))
        return Value([one.axes[dim] for dim in keep], one.rows, one.uniform, origin)

    return carried(value, taken, None if value.stacked is None else keep.index(value.stacked[0]))


def expand(call: Call) -> Result:
    """Copy one position: the copies' order does not matter, so a free axis appears."""
    value = next(call.tensors())
    for other in list(call.tensors())[1:]:
        for of in other.axes:
            call.forget(of)
    return Value(_widened(value, call.shape), value.rows, value.uniform)


def _widened(value: Value, shape: Shape) -> list[Axis]:
    axes: list[Axis] = [()] * (len(shape) - len(value.axes)) + value.axes
    return [
        of if size(flat(of)) == count else axis(count, "copies")
        for of, count in zip(axes, shape, strict=True)
    ]


def broadcast_tensors(call: Call) -> Result:
    """Each tensor expanded to the shape they have in common."""
    pairs = zip(call.tensors(), call.shapes, strict=True)
    return [Value(_widened(value, shape), value.rows, value.uniform) for value, shape in pairs]


def repeat(call: Call) -> Result:
    """Whole copies end to end (repeat) or of each position (repeat_interleave)."""
    value = next(call.tensors())
    inner = call.op == "repeat_interleave"
    if inner and not isinstance(call.args.get("repeats"), int):
        return opaque(call, "repeat_interleave by a tensor")
    axes: list[Axis] = [()] * (len(call.shape) - len(value.axes)) + value.axes
    if inner and call.args.get("dim") is None:
        axes = [flat(atom for of in value.axes for atom in of)]
    found: list[Axis] = []
    for of, count in zip(axes, call.shape, strict=True):
        copies = axis(count // max(size(flat(of)), 1), "copies")
        found.append(flat(of) + copies if inner else copies + flat(of))
    return Value(found, value.rows, value.uniform)


def pixel_shuffle(call: Call) -> Result:
    """Channels (c, r, r) become space: (c), (h, r), (w, r)."""
    value, factor = call.tensor("self"), int(call.args["upscale_factor"])
    channels, phase = split(value.axes[-3], factor * factor)
    down, right = split(phase, factor)
    space = [flat(value.axes[-2]) + down, flat(value.axes[-1]) + right]
    return Value([*value.axes[:-3], channels, *space])


def pixel_unshuffle(call: Call) -> Result:
    """Space (h, r), (w, r) becomes channels (c, r, r)."""
    value, factor = call.tensor("self"), int(call.args["downscale_factor"])
    (height, down), (width, right) = (split(of, factor) for of in value.axes[-2:])
    channels = flat(value.axes[-3]) + down + right
    return Value([*value.axes[:-3], channels, height, width])


def channel_shuffle(call: Call) -> Result:
    """Channels (g, c) become (c, g)."""
    value, groups = call.tensor("self", "input"), int(call.args["groups"])
    major, minor = split(value.axes[1], value.shape[1] // groups)
    return value.replaced(1, [minor + major])


def unfold(call: Call) -> Result:
    """Patches (im2col): channels times the positions in a patch, by patch."""
    value = call.tensor("self", "input")
    for of in value.axes[-2:]:
        call.pin(of, "spatial position")
    channels = flat(value.axes[-3])
    taps = axis(call.shape[-2] // max(size(channels), 1), "tap", f"{call.op}: position in a patch")
    patches = axis(call.shape[-1], "patch", f"{call.op}: spatial position")
    return Value([*value.axes[:-3], channels + taps, patches])


def fold(call: Call) -> Result:
    """Patches added up into an image (col2im)."""
    value = call.tensor("self", "input")
    channels, taps = split(value.axes[-2], value.shape[-2] // call.shape[-3])
    for of in (taps, value.axes[-1]):
        call.pin(of, "position in a patch")
    call.mix(value, taps, value.axes[-1])
    space = fresh(call.shape[-2:], f"{call.op}: spatial position").axes
    return Value([*value.axes[:-2], channels, *space])


_KEEPING = (
    "view reshape _unsafe_view flatten unflatten view_copy permute transpose t movedim moveaxis "
    "swapaxes swapdims numpy_T mT unsqueeze squeeze permute_copy"
)
#: Operators that carry slices of a stacked dimension along.
LAYOUT = frozenset(_KEEPING.split())

TABLE: Table = table(
    (view, "view reshape _unsafe_view flatten unflatten view_as reshape_as view_copy ravel"),
    (view, "_reshape_alias _reshape_copy"),
    (permute, "permute transpose t movedim moveaxis mT numpy_T swapaxes swapdims adjoint"),
    (unsqueeze, "unsqueeze"),
    (squeeze, "squeeze"),
    (expand, "expand expand_as broadcast_to expand_copy"),
    (broadcast_tensors, "broadcast_tensors"),
    (repeat, "repeat tile repeat_interleave"),
    (pixel_shuffle, "pixel_shuffle"),
    (pixel_unshuffle, "pixel_unshuffle"),
    (channel_shuffle, "channel_shuffle native_channel_shuffle"),
    (unfold, "im2col"),
    (fold, "col2im"),
)
