"""Normalisations and reductions: symmetric in what they reduce, and mixing it."""

from __future__ import annotations

from dataclasses import replace

from pruning.axes import split, unify
from pruning.rules.base import Call, Result, Shape, Table, Value, align, fresh, opaque, table


def layer_norm(call: Call) -> Result:
    """Normalise over the last dimensions; scale and shift lie along them."""
    value = call.tensor("input", "self")
    dims = len(call.args["normalized_shape"])
    for name in ("weight", "bias"):
        if call.get(name) is not None:
            align([call.args[name], value], len(value.axes))
    call.mix(value, *value.axes[-dims:])
    plain = Value(value.axes, value.rows)
    return call.each(lambda shape: plain if shape == value.shape else _reduced(value, shape))


def _reduced(value: Value, shape: Shape) -> Value:
    """Return statistics that keep the leading dimensions."""
    pairs = zip(value.axes, value.shape, shape, strict=False)
    return Value([of if have == want else () for of, have, want in pairs])


def batch_norm(call: Call) -> Result:
    """Normalise each channel; all vectors lie along the channels."""
    value = call.tensor("input", "self")
    channels = value.axes[1]
    for name in ("weight", "bias", "running_mean", "running_var"):
        if call.get(name) is not None:
            unify(channels, call.args[name].axes[0])
    rest = value.axes[2:] if "instance" in call.op else [value.axes[0], *value.axes[2:]]
    call.mix(value, *rest)
    known = {len(value.axes): value.axes, 1: [channels]}
    return call.each(lambda shape: fresh(shape) if shape == [0] else Value(known[len(shape)]))


def group_norm(call: Call) -> Result:
    """Normalise the channels of each group together."""
    value = call.tensor("input")
    groups = int(call.args.get("num_groups") or call.args["group"])
    _, channels = split(value.axes[1], value.shape[1] // groups)
    for name in ("weight", "bias"):
        if call.get(name) is not None:
            unify(value.axes[1], call.args[name].axes[0])
    call.mix(value, channels, *value.axes[2:])
    plain = Value(value.axes)
    return call.each(
        lambda shape: plain if shape == value.shape else fresh(shape, "group_norm: statistics")
    )


def _named(call: Call, rank: int, name: str) -> set[int]:
    dims = call.args.get(name)
    if dims is None or dims == []:
        return set(range(rank))
    return {dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims)}


def reduce(call: Call) -> Result:
    """Sum, mean, extreme or norm over some dimensions."""
    value = call.tensor("self", "input")
    rank = len(value.axes)
    dims = {dim for dim in _named(call, rank, "dim") if dim < rank}
    call.mix(value, *(value.axes[dim] for dim in dims))

    def made(shape: Shape) -> Value:
        if len(shape) == rank:
            return Value([() if dim in dims else of for dim, of in enumerate(value.axes)])
        return Value([of for dim, of in enumerate(value.axes) if dim not in dims])

    return call.each(made)


def softmax(call: Call) -> Result:
    """Normalise along one dimension."""
    value = call.tensor("self", "input")
    call.mix(value, value.axes[call.dim(len(value.axes), -1)])
    return Value(value.axes, value.rows)


def weight_norm(call: Call) -> Result:
    """Return a direction times a length for each position of one dimension."""
    direction, length = call.tensor("v"), call.tensor("g")
    rank = len(direction.axes)
    dim = int(call.get("dim", 0))
    axes = align([direction, length], rank)
    others = [of for at, of in enumerate(direction.axes) if dim == -1 or at != dim % rank]
    call.mix(direction, *others)
    origin = None if direction.origin is None else replace(direction.origin, exact=False)
    whole = Value(axes, origin=origin)
    return call.each(lambda shape: whole if shape == direction.shape else Value(length.axes))


#: What picks one entry along a dimension, and tells its place as a second result.
EXTREMES = frozenset(("max", "min", "median", "nanmedian", "kthvalue"))


def ordered(call: Call) -> Result:
    """Pin what is scanned, sorted or asked for the place of an extreme."""
    value = call.tensor("self", "input")
    rank = len(value.axes)
    if call.op in ("max", "min"):
        if call.args.get("other") is not None:
            return _larger(call)
        if call.args.get("dim") is None:
            return reduce(call)
    if call.op in EXTREMES and call.args.get("dim") is not None and call.used == frozenset({0}):
        return reduce(call)  # the value of an extreme, whose place nobody asks for
    dims = _sorted_dims(call, rank)
    for dim in dims:
        call.pin(value.axes[dim])
    call.mix(value, *(value.axes[dim] for dim in dims))
    return call.each(lambda shape: _along(call, value, dims, shape))


def _larger(call: Call) -> Result:
    operands = list(call.tensors())
    return Value(align(operands, max(len(value.axes) for value in operands)))


def _sorted_dims(call: Call, rank: int) -> set[int]:
    if call.op in ("tril", "triu"):
        return {rank - 2, rank - 1}
    default = {"sort": -1, "argsort": -1, "topk": -1, "kthvalue": -1, "diff": -1}.get(call.op)
    if call.args.get("dim") is None and default is not None:
        return {default % rank}
    return _named(call, rank, "dim")


def _along(call: Call, value: Value, dims: set[int], shape: Shape) -> Value:
    rank = len(value.axes)
    reason = f"{call.op}: order of positions matters"
    if len(shape) == rank:
        return Value(
            [
                fresh([count], reason).axes[0] if dim in dims else of
                for dim, (of, count) in enumerate(zip(value.axes, shape, strict=True))
            ]
        )
    rest = [of for dim, of in enumerate(value.axes) if dim not in dims]
    if len(shape) == len(rest):
        return Value(rest)
    return fresh(shape, reason)


def unfolded(call: Call) -> Result:
    """Windows along one dimension, laid into a new last one."""
    value = call.tensor("self")
    dim = call.dim(len(value.axes), 0, "dimension")
    call.pin(value.axes[dim])
    call.mix(value, value.axes[dim])
    windows, inside = call.shape[dim], call.shape[-1]
    reason = "unfold: order of positions matters"
    axes = value.replaced(dim, fresh([windows], reason).axes).axes
    return Value([*axes, *fresh([inside], reason).axes])


def unknown_statistics(call: Call) -> Result:
    """Pin what is counted by value: nothing can be followed."""
    return opaque(call, f"{call.op}: counts by value")


TABLE: Table = table(
    (layer_norm, "layer_norm rms_norm native_layer_norm _fused_rms_norm"),
    (
        batch_norm,
        "batch_norm instance_norm native_batch_norm cudnn_batch_norm _native_batch_norm_legit "
        "_native_batch_norm_legit_no_training _native_batch_norm_legit_functional "
        "_batch_norm_with_update _batch_norm_with_update_functional",
    ),
    (group_norm, "group_norm native_group_norm"),
    (
        reduce,
        "mean sum nansum nanmean amax amin aminmax prod var std var_mean std_mean logsumexp any "
        "all norm linalg_vector_norm frobenius_norm count_nonzero special_logsumexp",
    ),
    (softmax, "softmax log_softmax _softmax _log_softmax _safe_softmax special_softmax"),
    (weight_norm, "_weight_norm _weight_norm_interface"),
    (
        ordered,
        "cumsum cumprod logcumsumexp cummax cummin sort argsort topk argmax argmin max min "
        "kthvalue median nanmedian mode diff tril triu msort",
    ),
    (unfolded, "unfold"),
    (unknown_statistics, "histc bincount unique _unique2 unique_consecutive unique_dim"),
)
