"""Operators that treat every position alike, and those that make tensors of nothing."""

from __future__ import annotations

from pruning.axes import unify
from pruning.rules.base import (
    Call,
    Result,
    Table,
    Value,
    align,
    carried,
    fresh,
    opaque,
    table,
)


def elementwise(call: Call) -> Result:
    """Aligned dimensions take the same order; tensors of one value bind nothing."""
    operands = list(call.tensors())
    if not operands:
        return constant(call)
    axes = align(operands, max(len(value.axes) for value in operands))
    rows = tuple(leaf for value in operands for leaf in value.rows)
    uniform = all(value.uniform for value in operands)
    scaled = call.op in ("mul", "div", "neg") and len(operands) == 1
    origin = operands[0].origin if scaled else None
    return call.each(lambda shape: Value(axes, rows, uniform, origin))


def identity(call: Call) -> Result:
    """Return the same tensor, perhaps of another type: still the same parameter."""
    value, *others = call.tensors()
    for other in others:
        for of in other.axes:
            call.forget(of)
    return carried(value, lambda one: Value(one.axes, one.rows, one.uniform, one.origin))


def dropout(call: Call) -> Result:
    """Nothing happens in evaluation; in training the dropped positions are drawn in order."""
    if call.get("train", default=False):
        return opaque(call, f"{call.op}: random numbers depend on the position")
    return identity(call)


def noisy(call: Call) -> Result:
    """Slopes are drawn at random in training, and are one number in evaluation."""
    return positions(call) if call.get("training", default=False) else elementwise(call)


def prelu(call: Call) -> Result:
    """Return the first input; a slope for each channel follows the channels."""
    value, slope = call.tensor("self", "input"), call.tensor("weight")
    if slope.shape not in ([], [1]):
        unify(value.axes[1 if len(value.axes) > 1 else 0], slope.axes[0])
    return Value(value.axes, value.rows)


def constant(call: Call) -> Result:
    """All entries are equal: no position differs from another."""
    return call.each(lambda shape: Value(fresh(shape).axes, uniform=True))


def like(call: Call) -> Result:
    """Return a constant in the shape of a tensor, whose own axes are not read."""
    for value in call.tensors():
        for of in value.axes:
            call.forget(of)
    return constant(call)


def filled(call: Call) -> Result:
    """Every entry is overwritten by one value."""
    return like(call)


def positions(call: Call) -> Result:
    """Values that depend on where they stand: counters, random numbers."""
    return opaque(call, f"{call.op}: values depend on the position")


def as_complex(call: Call) -> Result:
    """Pairs become one number: the pairs stay whole, their order within is fixed."""
    value = call.tensor("self")
    call.pin(value.axes[-1], "real and imaginary part")
    return Value(value.axes[:-1])


def as_real(call: Call) -> Result:
    """One number becomes a pair."""
    value = call.tensor("self")
    return Value([*value.axes, *fresh([2], f"{call.op}: real and imaginary part").axes])


def scalar(call: Call) -> Result:
    """Pin a tensor that is turned into a number, or tested."""
    for value in call.tensors():
        for of in value.axes:
            call.pin(of, "read as a number")
    return None


def silent(call: Call) -> Result:
    """Return nothing; shapes and types are looked at, never values."""
    for value in call.tensors():
        for of in value.axes:
            call.forget(of)
    return None


POINTWISE = """
abs add sub rsub subtract mul multiply div divide neg negative pow exp exp2 expm1 log log1p log2
log10 sqrt rsqrt reciprocal square sin cos tan tanh sigmoid relu relu6 leaky_relu elu selu celu gelu
silu mish hardswish hardsigmoid hardtanh softplus log_sigmoid logsigmoid erf erfc erfinv sign floor
ceil round trunc fix frac clamp clamp_min clamp_max clip maximum minimum fmax fmin fmod remainder
where masked_fill eq ne lt le gt ge not_equal less less_equal greater greater_equal logical_and
logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__
__xor__ __lshift__ __rshift__ bitwise_left_shift bitwise_right_shift isnan isinf isfinite isneginf
isposinf floor_divide true_divide threshold hardshrink softshrink tanhshrink atan2 arctan2 lerp
addcmul addcdiv nan_to_num copy positive sinc atan asin acos arctan arcsin arccos sinh cosh
softsign heaviside xlogy special_xlogy polar complex sgn sign conj _conj conj_physical resolve_conj
resolve_neg angle real imag sinh asinh acosh atanh hypot logaddexp logaddexp2 signbit copysign
isclose logit special_expit sigmoid_ absolute deg2rad rad2deg gelu_ rrelu_eval frexp lgamma digamma
special_erf cast quantize_per_tensor dequantize fake_quantize_per_tensor_affine
"""

CARRIED = """
to _to_copy type_as clone alias contiguous detach lift_fresh_copy lift_fresh lift detach_copy
alias_copy
"""

TABLE: Table = table(
    (elementwise, POINTWISE),
    (identity, CARRIED),
    (dropout, "dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout"),
    (noisy, "rrelu"),
    (prelu, "prelu _prelu_kernel"),
    (
        constant,
        "zeros ones full empty scalar_tensor empty_strided",
    ),
    (like, "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty"),
    (like, "new_empty_strided"),
    (filled, "fill zero"),
    (
        positions,
        "rand randn rand_like randn_like randint randint_like randperm bernoulli normal uniform "
        "exponential multinomial arange linspace logspace eye tril_indices triu_indices "
        "native_dropout_train one_hot_positions",
    ),
    (as_complex, "view_as_complex"),
    (as_real, "view_as_real"),
    (scalar, "item _local_scalar_dense is_nonzero equal allclose"),
    (
        silent,
        "_assert_tensor_metadata sym_size sym_stride sym_numel sym_storage_offset "
        "sym_constrain_range sym_constrain_range_for_size sym_is_contiguous size stride numel",
    ),
    (scalar, "_assert_async _assert_scalar"),
)
