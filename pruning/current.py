"""The bundle of a model as it is now: after training, after a schedule changed its masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from permsearch.arrays import to_numpy
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from pruning.bundle import MaskBundle
from pruning.capture import unwrapped
from pruning.errors import BundleMismatch
from pruning.exports.layers import MaskedLayer, find_name, ordered, resolved
from pruning.masks import masks_of

#: Of the search for the mask that was; they do not hold for another one.
_OLD = ("retained", "baseline", "bound", "output_error")


def current_bundle(bundle: Mapping[str, BundleEntry], model: nn.Module) -> MaskBundle:
    """Return the bundle of a model's masks and weights as they are now.

    Its masks are in the layout that the model has, and its fingerprints are those of the model's
    weights: it is applied to them, and to what was saved of them, with every check.

    Parameters
    ----------
    bundle
        Of the model before: it tells patterns, and how all came about.
    model
        With its masks on, or off and zeros in their place.

    Raises
    ------
    BundleMismatch
        The bundle is of another model, or a mask on the model is none of its pattern.

    Examples
    --------
    >>> import pruning, torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    >>> result = pruning.prune(model, "2:4", example_inputs=torch.ones(1, 8))
    >>> with torch.no_grad():
    ...     model[0].parametrizations.weight.original *= 2  # training
    >>> after = current_bundle(result.bundle, model)
    >>> _ = pruning.detach_masks_(model)
    >>> handles = after.apply_(model)  # result.bundle would refuse these values
    """
    bare = unwrapped(model)
    attached = masks_of(bare)
    weights = plain_weights(bare)
    entries = {}
    for name, entry in bundle.items():
        own = find_name(name, weights)
        layer, changed = _layer(own, entry, weights[own], attached.get(own))
        entries[own] = _entry(layer, weights[own], changed=changed)
    settings = getattr(bundle, "settings", {})
    return MaskBundle(entries, settings, getattr(bundle, "skipped", {}))


def plain_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return a model's weights under their plain names, masked ones as the layers see them."""
    found: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name in masks_of(model):
            prefix, _, leaf = name.rpartition(".")
            found[name] = getattr(model.get_submodule(prefix), leaf)
    return found


def _layer(
    name: str, entry: BundleEntry, weight: torch.Tensor, attached: torch.Tensor | None
) -> tuple[MaskedLayer, bool]:
    """Return a weight with its mask, and whether that is another one than the bundle's."""
    try:
        return resolved(name, entry, weight, attached, check=True), False
    except BundleMismatch:
        if attached is None:
            raise
    for reordered in (True, False):
        layer = MaskedLayer.of(name, entry, attached.cpu(), reordered=reordered)
        lies = ordered(layer.mask.numpy(), entry, layer.orders)
        if entry.pattern.accepts(np.ascontiguousarray(lies)):
            return layer, True
    raise BundleMismatch(f"{name}: the mask on the model is none of {entry.pattern}.")


def _entry(layer: MaskedLayer, weight: torch.Tensor, *, changed: bool) -> BundleEntry:
    record: dict[str, Any] = dict(layer.entry.record)
    record["searched_sha256"] = record.get("searched_sha256", record["sha256"])
    record["sha256"] = fingerprint(to_numpy(layer.apply(weight), layer.name))
    record["tensor"] = layer.name
    for key in ("stored_sha256", "orders", *(_OLD if changed else ())):
        record.pop(key, None)
    if layer.reordered:
        record["entangled"] = False
        record.pop("moves", None)
    rows, cols = layer.orders
    return replace(
        layer.entry, name=layer.name, mask=layer.mask.numpy(), rows=rows, cols=cols, record=record
    )
