"""The state of `torch.ao.pruning` sparsifiers: masks inside parametrizations of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pruning.errors import ExportError

if TYPE_CHECKING:
    import torch


def fill_sparsifier_(sparsifier: Any, masks: Mapping[str, torch.Tensor]) -> list[str]:
    """Put masks into a prepared sparsifier of `torch.ao.pruning`, in place.

    Its masks are no part of the model's state dict: they are the sparsifier's, whose
    ``squash_mask`` then bakes them in.

    Parameters
    ----------
    sparsifier
        Such as `torch.ao.pruning.WeightNormSparsifier`, after ``prepare``.
    masks
        Boolean, true = kept, by the weights' names.

    Returns
    -------
    list of str
        The weights that were filled in.

    Raises
    ------
    ExportError
        It was not prepared, or not for one of these weights; nothing was changed.

    Examples
    --------
    >>> import torch
    >>> from torch.ao.pruning import WeightNormSparsifier
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    >>> sparsifier = WeightNormSparsifier()
    >>> sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> fill_sparsifier_(sparsifier, {"0.weight": torch.tensor([[True, False, True, False]] * 2)})
    ['0.weight']
    >>> masks_in_sparsifier(sparsifier)["0.weight"][0]
    tensor([ True, False,  True, False])
    """
    groups = {group["tensor_fqn"]: group for group in getattr(sparsifier, "groups", [])}
    if not groups:
        raise ExportError("the sparsifier has no layers; call its prepare(model, config) first.")
    places = {}
    for name, mask in masks.items():
        if name not in groups:
            raise ExportError(f"the sparsifier was not prepared for {name}; it has {list(groups)}.")
        group = groups[name]
        chain = group["module"].parametrizations[group["tensor_name"]]
        place = next(each for each in chain if hasattr(each, "mask"))
        if place.mask.shape != mask.shape:
            raise ExportError(f"{name}: the mask has shape {tuple(mask.shape)}, not its weight's.")
        places[name] = (place, mask)
    for name, (place, mask) in places.items():
        place.mask.copy_(mask)
        sparsifier.state[name]["mask"] = place.mask
    return list(places)


def masks_in_sparsifier(sparsifier: Any) -> dict[str, torch.Tensor]:
    """Return the masks that a sparsifier of `torch.ao.pruning` holds, by the weights' names.

    Examples
    --------
    >>> import torch
    >>> from torch.ao.pruning import WeightNormSparsifier
    >>> model, sparsifier = torch.nn.Sequential(torch.nn.Linear(4, 2)), WeightNormSparsifier()
    >>> sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> int(masks_in_sparsifier(sparsifier)["0.weight"].sum())  # as prepared: all are kept
    8
    """
    found = {}
    for group in getattr(sparsifier, "groups", []):
        chain = group["module"].parametrizations[group["tensor_name"]]
        found[group["tensor_fqn"]] = next(e for e in chain if hasattr(e, "mask")).mask != 0
    return found
