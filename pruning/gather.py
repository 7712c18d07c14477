"""Orders at run time: a layer that indexes its input, where no free order reaches its columns.

A pinned layer may still have its columns in another order if its input is put into that order on
the way in. That costs an index of the input on every run; `gather_` says how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from permsearch.errors import unknown
from permsearch.orders import Order, as_order, invert
from pruning.errors import StateError
from pruning.network import Network
from pruning.reorder import moves_of


class Gathered(nn.Module):
    """A linear layer or ungrouped convolution whose columns stand in another order.

    Parameters
    ----------
    layer
        The layer; its weight's columns are reordered in place.
    order
        Position to old column, as `permsearch` finds it.
    """

    order: torch.Tensor

    def __init__(self, layer: nn.Module, order: Any) -> None:
        super().__init__()
        columns = _columns(layer)
        checked = as_order(order, columns, "the order of the columns")
        self.layer = layer
        self.dim = -1 if isinstance(layer, nn.Linear) else 1
        weight: torch.Tensor = layer.weight  # type: ignore[assignment]
        index = torch.from_numpy(checked).to(weight.device)
        self.register_buffer("order", index)
        with torch.no_grad():
            weight.copy_(weight.index_select(1, index))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Return the layer's output for an input in the usual order."""
        found: torch.Tensor = self.layer(value.index_select(self.dim, self.order))
        return found

    def extra_repr(self) -> str:
        """Return what is gathered."""
        return f"gathers {self.order.numel()} inputs"


#: How the variable of a gathered layer ends.
GATHERED = " (gathered)"


@dataclass(frozen=True, slots=True)
class GatherCost:
    """What gathering one layer's input costs.

    Attributes
    ----------
    layer
        Its name.
    moved
        Bytes read and written by the index for each token (or pixel).
    share
        Those bytes as a share of the multiply-adds' operands: the weight, once for each batch of
        `tokens` tokens, and the layer's inputs and outputs.
    """

    layer: str
    moved: int
    share: float

    def __str__(self) -> str:
        return f"{self.layer}: {self.moved} bytes for each token, {self.share:.1%} more traffic"


def gather_(model: nn.Module, orders: Mapping[str, Any], *, tokens: int = 128) -> list[GatherCost]:
    """Put layers of a model behind an index of their input, in place.

    Parameters
    ----------
    orders
        The order of the columns of each layer, by the layer's name.
    tokens
        Tokens in a batch, for the cost.

    Raises
    ------
    StateError
        For a layer that is neither linear nor an ungrouped convolution, or whose weight is
        shared; nothing was changed.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    >>> x = torch.ones(1, 4)
    >>> before = model(x)
    >>> costs = gather_(model, {"0": [3, 1, 2, 0]})
    >>> torch.allclose(model(x), before)
    True
    """
    layers = dict(model.named_modules())
    for name in orders:
        if name not in layers:
            raise unknown("layer", name, layers)
        _columns(layers[name], name)
        _check_alone(model, name, layers[name])
    costs = []
    for name, order in orders.items():
        parent, _, leaf = name.rpartition(".")
        costs.append(gather_cost(name, layers[name].weight, tokens))
        setattr(model.get_submodule(parent), leaf, Gathered(layers[name], order))
    return costs


def gathered_orders(network: Network, solution: Any) -> dict[str, Order]:
    """Return what to hand to `gather_` after `permute_` has applied a solution.

    A group's order may have moved a gathered layer's columns and its input alike; the orders
    returned are counted from there.

    Examples
    --------
    >>> import pruning, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4))
    >>> network = pruning.trace(model, torch.ones(2, 8))
    >>> gathered_orders(network, {"0 (gathered)": [0, 2, 4, 6, 1, 3, 5, 7]})
    {'0': array([0, 2, 4, 6, 1, 3, 5, 7])}
    """
    orders: Mapping[str, Any] = getattr(solution, "solution", solution)
    plain = {name: order for name, order in orders.items() if not name.endswith(GATHERED)}
    moved = moves_of(network, plain)
    found = {}
    for name, order in orders.items():
        if name.endswith(GATHERED):
            layer = name.removesuffix(GATHERED)
            under = [move.index for move in moved.get(f"{layer}.weight", ()) if move.dims == (1,)]
            checked = as_order(order)
            found[layer] = invert(under[0])[checked] if under else checked
    return found


def _columns(layer: nn.Module, name: str = "the layer") -> int:
    if isinstance(layer, nn.Linear):
        return layer.in_features
    plain = isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    if plain and layer.groups == 1:
        return int(layer.in_channels)  # type: ignore[arg-type]
    raise StateError(
        f"{name} is a {type(layer).__name__}; linear layers and ungrouped convolutions can have "
        "their input gathered."
    )


def _check_alone(model: nn.Module, name: str, layer: nn.Module) -> None:
    """Refuse a weight that something else reads as well."""
    weight = layer.weight
    for other, tensor in model.named_parameters(remove_duplicate=False):
        if tensor is weight and other != f"{name}.weight":
            raise StateError(f"the weight of {name} is also {other}; its columns cannot move.")


def gather_cost(name: str, weight: torch.Tensor, tokens: int = 128) -> GatherCost:
    """Return what indexing the input of a layer with this weight costs."""
    size = weight.element_size()
    moved = 2 * weight.shape[1] * size
    traffic = weight.numel() * size / tokens + (weight.shape[0] + weight.shape[1]) * size
    return GatherCost(name, moved, moved / traffic)
