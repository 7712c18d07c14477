"""One rule for each ATen operator: what it says about the axes of its inputs and outputs.

A rule is a function of a `Call`. It unifies the axes that take one order, names those along which
the operator mixes positions, pins those whose order has a meaning, and returns the axes of the
outputs. An operator without a rule is a barrier: all that it touches stays where it is.
"""

from __future__ import annotations

from pruning.rules import (
    contraction,
    elementwise,
    indexing,
    layout,
    losses,
    norms,
    recurrent,
    slicing,
    spatial,
)
from pruning.rules.base import Table

#: The rule of each operator, by its name without overload and trailing underscore.
RULES: Table = {
    **elementwise.TABLE,
    **layout.TABLE,
    **slicing.TABLE,
    **contraction.TABLE,
    **norms.TABLE,
    **losses.TABLE,
    **spatial.TABLE,
    **recurrent.TABLE,
    **indexing.TABLE,
}

#: Operators that carry slices of a stacked dimension along without tying them.
KEEPS_SLICES = layout.LAYOUT | frozenset(
    f"{elementwise.CARRIED} select unbind slice narrow split split_with_sizes chunk "
    "tensor_split unsafe_split unsafe_chunk".split()
)

__all__ = ["KEEPS_SLICES", "RULES"]
