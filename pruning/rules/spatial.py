"""Pooling and resampling: channels pass, space keeps its order."""

from __future__ import annotations

from pruning.axes import unify
from pruning.rules.base import Call, Result, Table, Value, fresh, table


def pool(call: Call) -> Result:
    """Windows over the last dimensions, each channel on its own."""
    value = call.tensor("self", "input")
    rank = int(next(char for char in call.op if char in "123"))
    first = len(value.axes) - rank
    for of in value.axes[first:]:
        call.pin(of, "spatial position")
    call.mix(value, *value.axes[first:])
    reason = f"{call.op}: spatial position"
    return call.each(lambda shape: Value([*value.axes[:first], *fresh(shape[first:], reason).axes]))


def sample(call: Call) -> Result:
    """Read images at positions that a grid names."""
    value, grid = call.tensor("input"), call.tensor("grid")
    for of in (*value.axes[2:], *grid.axes[1:]):
        call.pin(of, "spatial position")
    call.mix(value, *value.axes[2:])
    unify(value.axes[0], grid.axes[0])
    space = fresh(call.shape[2:], f"{call.op}: spatial position").axes
    return Value([*value.axes[:2], *space])


TABLE: Table = table(
    (
        pool,
        "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices "
        "max_pool2d_with_indices max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d "
        "adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d",
    ),
    (
        pool,
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
        "upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d "
        "_upsample_nearest_exact2d _upsample_nearest_exact3d _upsample_bilinear2d_aa "
        "_upsample_bicubic2d_aa",
    ),
    (sample, "grid_sampler grid_sampler_2d grid_sampler_3d"),
)
