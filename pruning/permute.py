"""Apply orders to a model, a state dict or an optimizer, and prove the function unchanged."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import nn

from permsearch.domains import contains, size_of
from permsearch.errors import OrderError, unknown
from permsearch.orders import as_order
from pruning.capture import unwrapped
from pruning.errors import StateError, VerificationError
from pruning.gather import GATHERED
from pruning.network import Network
from pruning.reorder import Move, blockwise, moves, moves_of
from pruning.verify import Report, compare

Moves = Mapping[str, Sequence[Move]]


def permute_(
    model: nn.Module | MutableMapping[str, torch.Tensor],
    solution: Any,
    *,
    network: Network,
    optimizer: torch.optim.Optimizer | None = None,
    verify: bool = True,
    seed: int = 0,
) -> Report | None:
    """Reorder the channels of a model in place, so that it computes what it computed before.

    Parameters
    ----------
    model
        The traced model, a copy of it, or a state dict of it (which cannot be run, so it is not
        verified; wrappers' prefixes are understood).
    solution
        One order for each group to be moved, by name; a result of `permsearch.solve` will do.
    network
        What `trace` returned.
    optimizer
        Its state for the model's parameters moves along.
    verify
        Run the model before and after, on the traced examples and on fresh random inputs, in
        float64 where memory allows. A difference beyond rounding restores the model.
    seed
        Of the random inputs.

    Returns
    -------
    Report or None
        What was compared; None where nothing was run.

    Raises
    ------
    VerificationError
        The output changed; the model is as it was.
    StateError
        Tensors that the network names are missing or have other shapes; nothing was changed.
    OrderError, UnknownName
        An order is not one that its group allows; nothing was changed.

    Examples
    --------
    >>> import pruning, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> network = pruning.trace(model, torch.ones(2, 4))
    >>> orders = {network.groups[0].name: [7, 6, 5, 4, 3, 2, 1, 0]}
    >>> before = model[0].bias.detach().clone()
    >>> report = permute_(model, orders, network=network)  # raises if an output changes
    >>> torch.equal(model[0].bias, before.flip(0))
    True
    """
    found = moves_of(network, checked(network, solution))
    if not isinstance(model, nn.Module):
        aliased = {alias: found[name] for alias, name in network.aliases.items() if name in found}
        _reorder_(_tensors_of(model, network), {**found, **aliased})
        return None
    bare = unwrapped(model)
    tensors = _tensors_in(bare, network)
    slots = [] if optimizer is None else _slots(optimizer, tensors, found)
    outputs = output_moves(network, solution)
    if verify and _has_data(tensors):
        return _verified(bare, network, tensors, found, slots, outputs, seed)
    _reorder_(tensors, found)
    _reorder_slots(slots)
    return None


def checked(network: Network, solution: Any) -> dict[str, Any]:
    """Return the orders of a solution, each one that its group allows."""
    orders: Mapping[str, Any] = getattr(solution, "solution", solution)
    domains = network.domains
    found = {}
    for name, order in orders.items():
        if name.endswith(GATHERED):
            continue  # an order at run time, for gather_
        if name not in domains:
            raise unknown("group", name, domains)
        found[name] = as_order(order, size_of(domains[name]), f"the order of {name!r}")
        if not contains(domains[name], found[name]):
            raise OrderError(f"the order of {name!r} is not one that {domains[name]} allows.")
    return found


def output_moves(network: Network, solution: Any) -> list[list[list[Move]]]:
    """Return, for each example, what a solution does to each output; nothing to pinned ones."""
    orders = checked(network, solution)
    chosen = [
        (orbit, blockwise(orbit, orders[name]))
        for name, orbit in network.orbits.items()
        if name in orders
    ]
    return [[moves(axes, chosen) for axes in returned] for returned in network.outputs]


def _tensors_in(model: nn.Module, network: Network) -> dict[str, torch.Tensor]:
    named: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    named.update(model.named_buffers(remove_duplicate=False))
    found = _checked_shapes(named, network)
    for alias, name in network.aliases.items():
        if alias in named and named[alias] is not named[name]:
            raise StateError(
                f"{alias} and {name} were one tensor when the model was traced and are two now; "
                "trace the model again."
            )
    return found


def _tensors_of(state: MutableMapping[str, Any], network: Network) -> dict[str, torch.Tensor]:
    plain = {_bare_name(name): tensor for name, tensor in state.items()}
    found = _checked_shapes(plain, network)
    for alias, name in network.aliases.items():
        other = plain.get(alias)
        if other is not None and other.data_ptr() != found[name].data_ptr():
            found[alias] = other
    return found


def _bare_name(name: str) -> str:
    for prefix in ("module.", "_orig_mod."):
        name = name.removeprefix(prefix)
    return name


def _checked_shapes(named: Mapping[str, torch.Tensor], network: Network) -> dict[str, torch.Tensor]:
    bases = {network.base(name): name for name in network.shapes}
    for base, name in bases.items():
        shape = network.whole_shape(name)
        if base not in named:
            raise StateError(f"the network has a tensor {base!r} that is not among those given.")
        if tuple(named[base].shape) != shape:
            raise StateError(
                f"{base} has shape {tuple(named[base].shape)}, but {shape} when it was traced."
            )
    return {base: named[base] for base in bases}


def _has_data(tensors: Mapping[str, torch.Tensor]) -> bool:
    return not any(tensor.is_meta for tensor in tensors.values())


@torch.no_grad()
def _reorder_(tensors: Mapping[str, torch.Tensor], found: Moves, *, back: bool = False) -> None:
    """Apply moves, or undo them."""
    for name, tensor in tensors.items():
        for move in found.get(name, ()):
            (move.inverse if back else move).apply_(tensor)


def _slots(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor], found: Moves
) -> list[tuple[torch.Tensor, Sequence[Move]]]:
    """Return the optimizer's tensors that have to move, refusing those of unknown layout."""
    names = {id(tensor): name for name, tensor in tensors.items()}
    slots = []
    for parameter, state in optimizer.state.items():
        name = names.get(id(parameter), "")
        for key, item in state.items() if name in found else ():
            if not isinstance(item, torch.Tensor) or item.numel() < 2:
                continue
            if item.shape != parameter.shape:
                raise StateError(
                    f"the optimizer's {key!r} of {name} has shape {tuple(item.shape)}, not the "
                    f"parameter's {tuple(parameter.shape)}: permute before the optimizer is made."
                )
            slots.append((item, found[name]))
    return slots


@torch.no_grad()
def _reorder_slots(slots: Sequence[tuple[torch.Tensor, Sequence[Move]]]) -> None:
    for tensor, some in slots:
        for move in some:
            move.apply_(tensor)


def _verified(
    model: nn.Module,
    network: Network,
    tensors: Mapping[str, torch.Tensor],
    found: Moves,
    slots: Sequence[tuple[torch.Tensor, Sequence[Move]]],
    outputs: Sequence[Sequence[Sequence[Move]]],
    seed: int,
) -> Report:
    """Compare before and after; restore the model and raise where they differ."""
    done = False

    def change(other: nn.Module) -> None:
        nonlocal done
        if other is model:
            done = True
            _reorder_(tensors, found)
        else:
            _reorder_(_tensors_in(other, network), found)

    try:
        report = compare(model, change, network.examples, outputs, seed)
    except BaseException:
        if done:
            _reorder_(tensors, found, back=True)
        raise
    if not report.same:
        if done:
            _reorder_(tensors, found, back=True)
        raise VerificationError(
            f"the output of {type(model).__name__} changed by {report.difference:.1e} of its "
            f"largest entry ({report.limit:.0e} allowed, {report.dtype}); the model was restored. "
            "If an example's sizes hide something (a length of 1, or of a width), trace with other "
            "sizes, or with several examples; otherwise please report the model."
        )
    if not done:
        _reorder_(tensors, found)
    _reorder_slots(slots)
    return report
