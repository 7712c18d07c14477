"""Rewrite a captured graph where one operator says plainly what another says by a detour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pruning.lookahead import CARRIES
from pruning.ops import op_name

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def simplify(program: ExportedProgram) -> ExportedProgram:
    """Make looking up one known position (``x[:, [-1]]``) the slice that it is, in place."""
    constants = _constants(program)
    for node in list(program.graph.nodes):
        found = _lookup(node, constants) if op_name(node) == "index" else None
        if found is None:
            continue
        dim, position = found
        source: Any = node.args[0]
        position %= source.meta["val"].shape[dim]
        with program.graph.inserting_before(node):
            piece = program.graph.call_function(
                torch.ops.aten.slice.Tensor, (source, dim, position, position + 1)
            )
        piece.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(piece)
        program.graph.erase_node(node)
    return program


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Return the constant tensors of a program by the names of their placeholders."""
    named = program.graph_signature.inputs_to_lifted_tensor_constants
    found = {name: program.constants[target] for name, target in named.items()}
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def _lookup(node: Node, constants: dict[str, torch.Tensor]) -> tuple[int, int] | None:
    """Return the dimension and the position that a node looks up, where it is one and known."""
    indices: Any = node.args[1]
    used = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    if len(used) != 1:
        return None
    dim, item = used[0]
    while op_name(item) in CARRIES:
        item = item.args[0]
    value = constants.get(item.name)
    if value is None or value.shape != (1,) or value.dtype not in (torch.int64, torch.int32):
        return None
    return None if value.is_meta else (dim, int(value))
