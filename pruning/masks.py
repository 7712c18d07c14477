"""Masks that stay: parametrizations of a model's weights, kept through training and copying.

The weight that a layer computes with is the stored one where the mask is true and exactly zero
elsewhere, so its gradient is masked too. Given the optimizer, the stored values of dropped weights
and what the optimizer remembers of them are set to zero after each of its steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from permsearch.errors import unknown
from pruning.capture import unwrapped
from pruning.errors import StateError
from pruning.masked import Masked, carry, chain_of, masks_in, put_on, stored_tensor
from pruning.ranks import check_same_on_ranks


def attach_masks_(
    model: nn.Module,
    masks: Mapping[str, Any],
    *,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
) -> list[torch.utils.hooks.RemovableHandle]:
    """Attach masks to a model's weights, in place.

    A parameter under several names (tied) carries its mask under all of them. The stored tensors
    remain the same objects, so an optimizer made before goes on. Their names in the state dict
    become ``LAYER.parametrizations.weight.original`` with the mask beside it: a state dict of a
    masked model loads strictly into one that has masks attached.

    Parameters
    ----------
    masks
        Boolean, true = kept, in the shape of the weight, by its name in the state dict;
        a `pruning.MaskBundle` has an `apply_` of its own, which also looks at the fingerprints.
    optimizer
        Those that train the model: see `keep_masked`. Without it the layers compute with exact
        zeros all the same, and `detach_masks_` writes them.

    Returns
    -------
    list of RemovableHandle
        One for each optimizer, to take the re-zeroing off again.

    Raises
    ------
    StateError
        A mask of another shape or type, a weight that has one already, or ranks of a
        distributed run that hold different masks; nothing was changed.
    UnknownName
        No parameter has that name.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(4, 2))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> mask = torch.tensor([[True, False, True, False]] * 2)
    >>> handles = attach_masks_(model, {"0.weight": mask}, optimizer=optimizer)
    >>> model(torch.ones(3, 4)).sum().backward()
    >>> optimizer.step()
    >>> bool((model[0].weight[~mask] == 0).all())
    True
    """
    bare = unwrapped(model)
    found = {_bare_name(name): mask for name, mask in masks.items()}
    checked = {name: _checked(bare, name, mask) for name, mask in found.items()}
    check_same_on_ranks(checked)
    for names, mask in _by_storage(bare, checked).items():
        one = Masked(mask.clone())
        for name in names:
            module, leaf = _place(bare, name)
            put_on(module, leaf, one)
            carry(module)
    rezero_(bare)
    return [] if optimizer is None else keep_masked(bare, optimizer)


def keep_masked(
    model: nn.Module, optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
) -> list[torch.utils.hooks.RemovableHandle]:
    """Have dropped weights, and what optimizers remember of them, zeroed after each step.

    Momentum of the steps before the mask, weight decay and gradient scalers make no difference
    then. Averages of the stored tensors are averages of zeros.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(2, 1)
    >>> handles = attach_masks_(layer, {"weight": torch.tensor([[True, False]])})
    >>> optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)  # made after the masks
    >>> handles = keep_masked(layer, optimizer)
    """
    several = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    handles = []
    for each in several:
        own = {id(p) for group in each.param_groups for p in group["params"]}
        masked = [(tensor, mask) for tensor, mask in _stored(model) if id(tensor) in own]
        if not masked:
            raise StateError(
                f"the {type(each).__name__} holds none of the masked weights; hand in the "
                "optimizer that trains this model."
            )
        hook = _Rezero(masked)
        hook(each, (), {})
        handles.append(each.register_step_post_hook(hook))
    return handles


def detach_masks_(model: nn.Module) -> dict[str, torch.Tensor]:
    """Take the masks off and leave exact zeros, never -0.0, in the weights they were on.

    Returns
    -------
    dict
        The masks, by name.

    Raises
    ------
    StateError
        A masked weight is computed by another parametrization (weight norm) as well, where zeros
        cannot be stored; nothing was changed.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(2, 1)
    >>> handles = attach_masks_(layer, {"weight": torch.tensor([[True, False]])})
    >>> detach_masks_(layer)
    {'weight': tensor([[ True, False]])}
    >>> layer.weight[0, 1].item()
    0.0
    """
    bare = unwrapped(model)
    found = masks_of(bare)
    for name, module, leaf in _masked_places(bare):
        if len(chain_of(module, leaf)) > 1:
            raise StateError(
                f"{name} is computed by another parametrization besides its mask, which would "
                "bring its zeros back; remove that first (remove_parametrizations)."
            )
    rezero_(bare)
    for _, module, leaf in _masked_places(bare):
        parametrize.remove_parametrizations(module, leaf, leave_parametrized=False)
    return found


@torch.no_grad()
def update_masks_(model: nn.Module, masks: Mapping[str, Any]) -> None:
    """Replace masks that are attached, in place: what a schedule does at each of its stages.

    Optimizers that keep weights masked go by the new ones. What a later mask brings back starts
    from zero.

    Raises
    ------
    UnknownName, StateError
        A weight has no mask yet, or the new one does not fit; nothing was changed.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(2, 1)
    >>> handles = attach_masks_(layer, {"weight": torch.tensor([[True, True]])})
    >>> update_masks_(layer, {"weight": torch.tensor([[False, True]])})
    >>> density(layer)
    0.5
    """
    bare = unwrapped(model)
    places = {name: masks_in(module, leaf) for name, module, leaf in _masked_places(bare)}
    found = {}
    for name, mask in masks.items():
        if _bare_name(name) not in places:
            raise unknown("masked weight", name, places)
        found[_bare_name(name)] = _fitting(places[_bare_name(name)].mask, name, mask)
    check_same_on_ranks(found)
    for name, mask in found.items():
        places[name].mask.copy_(mask)
    rezero_(bare)


def masks_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the masks that are attached to a model, by the names of the weights.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(2, 1)
    >>> handles = attach_masks_(layer, {"weight": torch.tensor([[True, False]])})
    >>> masks_of(layer)
    {'weight': tensor([[ True, False]])}
    """
    return {
        name: masks_in(module, leaf).mask.clone()
        for name, module, leaf in _masked_places(unwrapped(model))
    }


@torch.no_grad()
def rezero_(model: nn.Module) -> None:
    """Set the stored values of dropped weights to zero; weights computed otherwise are left.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> layer = nn.Linear(2, 1)
    >>> handles = attach_masks_(layer, {"weight": torch.tensor([[True, False]])})
    >>> with torch.no_grad():
    ...     _ = layer.parametrizations.weight.original.fill_(5.0)  # a step that knows no masks
    >>> rezero_(layer)
    >>> layer.parametrizations.weight.original.tolist()
    [[5.0, 0.0]]
    """
    for tensor, mask in _stored(unwrapped(model)):
        tensor.masked_fill_(~mask, 0)


def density(model: nn.Module) -> float:
    """Return the share of all weights with rows and columns that masks leave, unmasked ones too.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 2))
    >>> handles = attach_masks_(model, {"0.weight": torch.tensor([[True, False]])})
    >>> density(model)
    0.75
    """
    bare = unwrapped(model)
    masked = masks_of(bare)
    kept = sum(int(mask.sum()) for mask in masked.values())
    dropped = sum(mask.numel() for mask in masked.values()) - kept
    total = sum(p.numel() for p in bare.parameters() if p.dim() > 1)
    return 1 - dropped / total if total else 1.0


class _Rezero:
    """A hook behind an optimizer's step."""

    def __init__(self, masked: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.masked = masked

    @torch.no_grad()
    def __call__(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        for tensor, mask in self.masked:
            dropped = ~mask.to(tensor.device)
            tensor.masked_fill_(dropped, 0)
            for kept in optimizer.state.get(tensor, {}).values():
                if isinstance(kept, torch.Tensor) and kept.shape == tensor.shape:
                    kept.masked_fill_(dropped, 0)


def _masked_places(model: nn.Module) -> list[tuple[str, nn.Module, str]]:
    """Return the weights that are masked: name, module, and name within the module."""
    found = []
    for prefix, module in model.named_modules():
        chains: Any = getattr(module, "parametrizations", {})
        for leaf, chain in chains.items() if parametrize.is_parametrized(module) else ():
            if any(isinstance(each, Masked) for each in chain):
                found.append((f"{prefix}.{leaf}" if prefix else leaf, module, leaf))
    return found


def _stored(model: nn.Module) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the stored tensors that are the weights themselves but for the mask, each once."""
    found = {}
    for _, module, leaf in _masked_places(model):
        tensor = stored_tensor(module, leaf)
        if tensor is not None:
            found[id(tensor)] = (tensor, masks_in(module, leaf).mask)
    return list(found.values())


def _by_storage(
    model: nn.Module, masks: Mapping[str, torch.Tensor]
) -> dict[tuple[str, ...], torch.Tensor]:
    """Return the masks with all names of each parameter; two masks for one are refused."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    found: dict[tuple[str, ...], torch.Tensor] = {}
    for name, mask in masks.items():
        module, leaf = _place(model, name)
        own = tuple(names.get(id(module._parameters.get(leaf)), [name]))  # noqa: SLF001
        if own in found and not torch.equal(found[own], mask):
            raise StateError(f"{' and '.join(own)} are one tensor, but got different masks.")
        found[own] = mask
    return found


def _place(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """Return the module that has a weight, and the weight's name there."""
    prefix, _, leaf = name.rpartition(".")
    modules = dict(model.named_modules(remove_duplicate=False))
    module = modules.get(prefix)
    if module is None or not isinstance(getattr(module, leaf, None), torch.Tensor):
        raise unknown("weight", name, [n for n, p in model.named_parameters() if p.dim() > 1])
    return module, leaf


def _checked(model: nn.Module, name: str, mask: Any) -> torch.Tensor:
    module, leaf = _place(model, name)
    weight: torch.Tensor = getattr(module, leaf)
    found = _fitting(weight, name, mask)
    if any(name == masked for masked, _, _ in _masked_places(model)):
        raise StateError(f"{name} has a mask already; detach_masks_ first.")
    return found


def _fitting(weight: torch.Tensor, name: str, mask: Any) -> torch.Tensor:
    """Return a mask as a tensor beside the weight (or mask) whose shape it must have."""
    found = torch.as_tensor(mask)
    if found.dtype != torch.bool:
        raise StateError(f"the mask of {name} is {found.dtype}; boolean ones are taken.")
    if found.shape != weight.shape:
        raise StateError(
            f"the mask of {name} has shape {tuple(found.shape)}, the weight {tuple(weight.shape)}."
        )
    return found.to(weight.device)


def _bare_name(name: str) -> str:
    for prefix in ("module.", "_orig_mod."):
        name = name.removeprefix(prefix)
    return name
