"""The state of `torch.nn.utils.prune`: ``weight_orig`` and ``weight_mask`` under hooks."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import prune

from pruning.capture import unwrapped
from pruning.errors import ExportError
from pruning.masks import attach_masks_, detach_masks_, masks_of


def to_torch_prune_(model: nn.Module) -> list[str]:
    """Hand a masked model's masks over to `torch.nn.utils.prune`, in place.

    Returns
    -------
    list of str
        The weights; each is now ``NAME_orig`` and ``NAME_mask`` in the state dict.

    Raises
    ------
    ExportError
        No masks are attached, or one is on a weight that hooks do not serve: those of attentions
        and recurrent layers, and tied ones. Nothing was changed.

    Examples
    --------
    >>> import pruning, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    >>> mask = torch.tensor([[True, False, True, False]] * 2)
    >>> handles = pruning.attach_masks_(model, {"0.weight": mask})
    >>> to_torch_prune_(model)
    ['0.weight']
    >>> sorted(model.state_dict())
    ['0.bias', '0.weight_mask', '0.weight_orig']
    """
    bare = unwrapped(model)
    masks = masks_of(bare)
    if not masks:
        raise ExportError("the model has no masks attached; attach_masks_ first.")
    for name in masks:
        why = hook_obstacle(bare, name)
        if why:
            raise ExportError(f"{name}: {why}.")
    for name, mask in detach_masks_(bare).items():
        module, leaf = place(bare, name)
        prune.custom_from_mask(module, leaf, mask)  # type: ignore[no-untyped-call]
    return list(masks)


def from_torch_prune_(model: nn.Module) -> dict[str, torch.Tensor]:
    """Take over masks that `torch.nn.utils.prune` put on a model, in place; return them.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(4, 2), "weight", amount=0.5)
    >>> masks = from_torch_prune_(layer)
    >>> int(masks["weight"].sum())
    4
    """
    bare = unwrapped(model)
    masks = {}
    for prefix, module in bare.named_modules():
        for leaf in _hooked(module):
            masks[f"{prefix}.{leaf}" if prefix else leaf] = module.get_buffer(f"{leaf}_mask") != 0
            prune.remove(module, leaf)  # type: ignore[no-untyped-call]
    if not masks:
        raise ExportError("torch.nn.utils.prune has no masks on this model.")
    attach_masks_(bare, masks)
    return masks


def _hooked(module: nn.Module) -> list[str]:
    """Return the tensors of a module that torch.nn.utils.prune masks."""
    names = [name for name, _ in module.named_buffers(recurse=False) if name.endswith("_mask")]
    leaves = [name.removesuffix("_mask") for name in names]
    return [leaf for leaf in leaves if hasattr(module, f"{leaf}_orig")]


def place(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """Return the module that has a weight, and the weight's name there."""
    prefix, _, leaf = name.rpartition(".")
    return model.get_submodule(prefix), leaf


def hook_obstacle(model: nn.Module, name: str) -> str:
    """Return why `torch.nn.utils.prune` cannot keep a weight masked, or an empty string."""
    module, _leaf = place(model, name)
    inside = [m.out_proj for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase) or any(m is module for m in inside):
        return (
            "torch.nn.utils.prune masks in a hook that this layer never calls, or keeps another "
            "list of; export it as dense zeros"
        )
    named = dict(model.named_parameters(remove_duplicate=False))
    own = named[name if name in named else _stored_name(name)]
    shared = [n for n, p in named.items() if p is own]
    if len(shared) > 1:
        return f"it is tied ({', '.join(shared)}), and the hooks would untie it"
    return ""


def _stored_name(name: str) -> str:
    prefix, _, leaf = name.rpartition(".")
    inner = f"parametrizations.{leaf}.original"
    return f"{prefix}.{inner}" if prefix else inner
