"""Losses that a forward returns when it is given targets, and transforms to frequencies."""

from __future__ import annotations

from pruning.rules.base import Call, Result, Table, Value, align, fresh, table


def pointwise_loss(call: Call) -> Result:
    """Compare two tensors entry by entry, and perhaps add all up."""
    operands = list(call.tensors())
    axes = align(operands, max(len(value.axes) for value in operands))
    whole = Value(axes)
    if call.shape == whole.shape:
        return whole
    for value in operands:
        call.mix(value, *value.axes)
    return Value([])


def class_loss(call: Call) -> Result:
    """Compare scores of classes with labels: classes stay, samples are added up or pass."""
    value = call.tensor("self", "input")
    classes = 1 if len(value.axes) > 1 else 0
    for operand in call.tensors():
        for of in operand.axes:
            call.pin(of, "classes are told apart by number")
    call.mix(value, value.axes[classes])
    return call.each(lambda shape: fresh(shape, f"{call.op}: samples keep their order"))


def fourier(call: Call) -> Result:
    """Turn positions of some dimensions into frequencies; the others pass."""
    value = call.tensor("self", "input")
    rank = len(value.axes)
    named = call.args.get("dim")
    dims = range(rank) if named is None else [named] if isinstance(named, int) else named
    turned = {dim % rank for dim in dims}
    axes = list(value.axes)
    for dim in turned:
        call.pin(axes[dim], "positions become frequencies")
        axes[dim] = fresh([call.shape[dim]], f"{call.op}: frequencies").axes[0]
    call.mix(value, *(value.axes[dim] for dim in turned))
    return Value(axes)


TABLE: Table = table(
    (
        pointwise_loss,
        "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
        "binary_cross_entropy_with_logits kl_div soft_margin_loss poisson_nll_loss",
    ),
    (
        class_loss,
        "cross_entropy_loss nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss2d_forward",
    ),
    (
        fourier,
        "fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 "
        "fft_irfft2 fft_fftn fft_ifftn fft_rfftn fft_irfftn",
    ),
)
