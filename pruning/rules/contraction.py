"""Operators that sum two tensors against each other: products, convolutions, attention."""

from __future__ import annotations

from pruning.axes import Axis, Conflict, flat, leaves, size, split, unify
from pruning.rules.base import (
    Call,
    Result,
    Table,
    Value,
    align,
    contract,
    fresh,
    opaque,
    read,
    table,
)


def linear(call: Call) -> Result:
    """Return inputs times weight (out, in), plus a bias that follows the outputs."""
    value, weight, bias = call.tensor("input"), call.tensor("weight"), call.get("bias")
    contract(call, (value, [len(value.axes) - 1]), (weight, [len(weight.axes) - 1]))
    outputs = weight.axes[:-1]
    call.form(*value.axes, *outputs)
    if bias is not None and outputs:
        unify(outputs[-1], bias.axes[-1])
    return Value([*value.axes[:-1], *outputs])


def matmul(call: Call) -> Result:
    """Return the last dimension of one against the last but one of the other, in batches."""
    first, second = list(call.tensors())[:2]
    return _product(call, first, second)


def _product(call: Call, first: Value, second: Value) -> Value:
    inner = len(second.axes) - 2 if len(second.axes) > 1 else 0
    contract(call, (first, [len(first.axes) - 1]), (second, [inner]))
    rank = max(len(first.axes), len(second.axes), 2) - 2
    batch = align([Value(first.axes[:-2]), Value(second.axes[:-2])], rank)
    rows = first.axes[-2:-1] if len(first.axes) > 1 else []
    cols = second.axes[-1:] if len(second.axes) > 1 else []
    call.form(*batch, *rows, *cols, first.axes[-1])
    return Value([*batch, *rows, *cols])


def addmm(call: Call) -> Result:
    """Return a product of two matrices (or batches of them) plus a bias."""
    bias, first, second = list(call.tensors())[:3]
    value = _product(call, first, second)
    if call.op == "addbmm":
        call.mix(first, first.axes[0])
        call.mix(second, second.axes[0])
        unify(first.axes[0], second.axes[0])
        value = Value(value.axes[1:])
    return Value(align([value, bias], len(value.axes)))


def outer(call: Call) -> Result:
    """Return every entry of one vector times every entry of another."""
    first, second = list(call.tensors())[:2]
    return Value([*first.axes, *second.axes])


def bilinear(call: Call) -> Result:
    """Return two inputs against a weight (out, in1, in2)."""
    first, second, weight = (call.tensor(name) for name in ("input1", "input2", "weight"))
    for of, other in ((first.axes[-1], weight.axes[1]), (second.axes[-1], weight.axes[2])):
        unify(of, other)
    for value, dims in ((first, [-1]), (second, [-1]), (weight, [1, 2])):
        call.mix(value, *(value.axes[dim] for dim in dims))
    read(call, weight, [1, 2])
    batch = align([Value(first.axes[:-1]), Value(second.axes[:-1])], len(first.axes) - 1)
    call.form(*batch, *weight.axes)
    bias = call.get("bias")
    if bias is not None:
        unify(weight.axes[0], bias.axes[0])
    return Value([*batch, weight.axes[0]])


def einsum(call: Call) -> Result:
    """Unify dimensions of the same letter, and contract letters that vanish."""
    operands = list(call.tensors())
    words, result = _letters(str(call.args["equation"]), [len(one.axes) for one in operands])
    named: dict[str, Axis] = {}
    pairs = list(zip(words, operands, strict=True))
    for word, value in pairs:
        for letter, of in zip(word, value.axes, strict=True):
            if size(flat(named.get(letter, ()))) != 1 and size(flat(of)) != 1:
                unify(named[letter], of)
            elif size(flat(of)) != 1 or letter not in named:
                named[letter] = of
    for word, value in pairs:
        gone = [dim for dim, letter in enumerate(word) if letter not in result]
        call.mix(value, *(value.axes[dim] for dim in gone))
        read(call, value, gone)
    call.form(*named.values())
    return Value([named[letter] for letter in result])


def _letters(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; an ellipsis becomes digits."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    words = left.split(",")
    hidden = [
        rank - len(word.replace("...", "")) if "..." in word else 0
        for word, rank in zip(words, ranks, strict=True)
    ]
    digits = "0123456789"[: max(hidden)]
    if not arrow:
        letters = "".join(words).replace(".", "")
        single = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        result = ("..." if "..." in left else "") + "".join(single)
    spelt = [
        word.replace("...", digits[len(digits) - count :])
        for word, count in zip(words, hidden, strict=True)
    ]
    return spelt, result.replace("...", digits)


def tensordot(call: Call) -> Result:
    """Contract listed dimensions of two tensors; the others follow one another."""
    first, second = call.tensor("self"), call.tensor("other")
    pairs = ((first, "dims_self"), (second, "dims_other"))
    gone = [[dim % len(value.axes) for dim in call.args[name]] for value, name in pairs]
    contract(call, (first, gone[0]), (second, gone[1]))
    kept = [
        [of for dim, of in enumerate(value.axes) if dim not in dims]
        for (value, _), dims in zip(pairs, gone, strict=True)
    ]
    call.form(*first.axes, *kept[1])
    return Value([*kept[0], *kept[1]])


def distances(call: Call) -> Result:
    """Return the distance of each row of one tensor from each row of another."""
    first, second = list(call.tensors())[:2]
    return _product(call, first, Value([*second.axes[:-2], second.axes[-1], second.axes[-2]]))


def convolution(call: Call) -> Result:
    """Contract channels within each group; one reading covers grouped and depthwise ones."""
    value, weight = call.tensor("input"), call.tensor("weight")
    first = len(value.axes) - (len(weight.axes) - 2) - 1
    groups = int(call.get("groups", 1))
    transposed = bool(call.get("transposed", default="transpose" in call.op))
    inner = value.shape[first] // groups
    outer_count = call.shape[first] // groups
    try:
        group, channels = split(value.axes[first], inner)
        along, across = split(weight.axes[0], inner if transposed else outer_count)
    except Conflict as conflict:
        return opaque(call, f"{call.op}: {conflict}")
    own, outputs = (across, weight.axes[1]) if transposed else (weight.axes[1], across)
    unify(group, along)
    unify(channels, own)
    for of in weight.axes[2:]:
        call.pin(of, "kernel position")
    call.mix(value, channels)
    call.mix(weight, own, *weight.axes[2:])
    read(call, weight, [0 if transposed else 1])
    call.form(*value.axes, outputs, *weight.axes[2:])
    found = flat(group) + flat(outputs)
    if call.get("bias") is not None:
        unify(found, call.args["bias"].axes[0])
    return Value([*value.axes[:first], found, *_space(call, value, weight, first + 1)])


def _space(call: Call, value: Value, weight: Value, first: int) -> list[Axis]:
    """Spatial dimensions: untouched by a pointwise convolution, else their order matters."""
    if _pointwise(call, weight) and value.shape[first:] == call.shape[first:]:
        return value.axes[first:]
    for of in value.axes[first:]:
        call.pin(of, "spatial position")
    call.mix(value, *value.axes[first:])
    return fresh(call.shape[first:], f"{call.op}: spatial position").axes


def _pointwise(call: Call, weight: Value) -> bool:
    padding = call.get("padding", 0)
    still = padding == "valid" or not any([padding] if isinstance(padding, int) else padding)
    return still and set(weight.shape[2:]) <= {1}


def attention(call: Call) -> Result:
    """Weigh values by queries against keys; heads may be shared by several queries."""
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    if float(call.get("dropout_p", 0.0)) > 0:
        return opaque(call, "dropout inside attention draws numbers by position")
    if call.get("enable_gqa", default=False) and query.shape[-3] != key.shape[-3]:
        _, shared = split(query.axes[-3], query.shape[-3] // key.shape[-3])
        key, value = (_spread(tensor, shared) for tensor in (key, value))
    rank = len(query.axes)
    batch = align([Value(tensor.axes[:-2]) for tensor in (query, key, value)], rank - 2)
    contract(call, (query, [rank - 1]), (key, [len(key.axes) - 1]))
    contract(call, (key, [len(key.axes) - 2]), (value, [len(value.axes) - 2]))
    for of in (query.axes[-1], value.axes[-1]):
        call.form(*batch, query.axes[-2], key.axes[-2], of)
    mask = call.get("attn_mask")
    if mask is not None:
        met = align([mask, Value([*batch, query.axes[-2], key.axes[-2]])], rank)
        call.mix(mask, *mask.axes[-1:])
        for of in met:
            call.forget(of)
    if call.get("is_causal", default=False):
        for of in (query.axes[-2], key.axes[-2]):
            call.pin(of, "causal")
    return Value([*batch, query.axes[-2], value.axes[-1]])


def _spread(value: Value, shared: Axis) -> Value:
    """Give the heads of keys or values the axis of the queries that share one."""
    return Value([*value.axes[:-3], flat(value.axes[-3]) + shared, *value.axes[-2:]])


def grouped_matmul(call: Call) -> Result:
    """Return rows sorted by expert times one matrix for each expert: a row knows its expert."""
    first, second, *rest = call.tensors()
    if len(second.axes) != 3 or len(first.axes) != 2:
        return opaque(call, "grouped matmul of other ranks")
    for offsets in rest[:1]:
        unify(second.axes[0], offsets.axes[0])  # one routing, one expert axis
    call.pin(second.axes[0], "experts are chosen by index")
    contract(call, (first, [1]), (second, [1]))
    call.form(*first.axes, second.axes[2], rows=tuple(leaves(second.axes[0])))
    return Value([first.axes[0], second.axes[2]], tuple(leaves(second.axes[0])))


def similarity(call: Call) -> Result:
    """Compare two tensors along one dimension, symmetric in it."""
    first, second = list(call.tensors())[:2]
    rank = max(len(first.axes), len(second.axes))
    axes = align([first, second], rank)
    dim = call.dim(rank, 1) if call.op == "cosine_similarity" else rank - 1
    for value in (first, second):
        call.mix(value, axes[dim])
    rest = axes[:dim] + axes[dim + 1 :]
    return Value(rest if len(call.shape) == len(rest) else [*rest[:dim], (), *rest[dim:]])


TABLE: Table = table(
    (linear, "linear"),
    (matmul, "matmul mm bmm mv dot vdot inner_product __matmul__"),
    (addmm, "addmm baddbmm addbmm addmv"),
    (outer, "outer ger"),
    (bilinear, "bilinear"),
    (einsum, "einsum"),
    (tensordot, "tensordot"),
    (distances, "cdist _cdist_forward"),
    (convolution, "conv1d conv2d conv3d convolution _convolution"),
    (convolution, "conv_transpose1d conv_transpose2d conv_transpose3d"),
    (attention, "scaled_dot_product_attention"),
    (grouped_matmul, "transformers::grouped_mm_fallback _grouped_mm grouped_mm"),
    (similarity, "cosine_similarity pairwise_distance"),
)
