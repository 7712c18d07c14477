"""Put packed layers into a network, from a bundle of masks."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparsekernels.errors import KernelError, PackError
from sparsekernels.formats.choose import pack
from sparsekernels.modules import sparse_like

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Swapped:
    """What happened to one entry of a bundle.

    Parameters
    ----------
    name
        Of the layer.
    pattern
        The pattern's text.
    reason
        Why the layer stayed dense; empty where it was packed.
    nbytes, dense_bytes
        Of the packed weight and of the dense one.
    """

    name: str
    pattern: str
    reason: str = ""
    nbytes: int = 0
    dense_bytes: int = 0


def swap_modules_(
    model: nn.Module, bundle: Any, *, only: Iterable[str] = ("*",), strict: bool = False
) -> list[Swapped]:
    """Replace the layers whose masks a bundle holds by packed ones, in place.

    Parameters
    ----------
    model
        Its layers' weights are packed as they are now. An entry's orders describe the mask only;
        what the layer computes stays the masked product.
    bundle
        A mapping from names (of a layer or of its weight) to entries with the attributes `mask`,
        `pattern`, and optionally `rows`, `cols` (orders or None) and `tiles`; or anything with
        such an `items()`.
    only
        Patterns of names (`fnmatch`) to take.
    strict
        Raise where a layer cannot be packed, instead of leaving it dense with the reason.

    Returns
    -------
    One line for each entry taken, in the bundle's order. Nothing is changed where it raises.

    Raises
    ------
    PackError
        For a name that no layer has, and with `strict` for the first layer that cannot be packed.

    Examples
    --------
    >>> import torch, sparsekernels as sk
    >>> from sparsekernels.bundles import BundleEntry
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4))
    >>> mask = torch.tensor([[True, True, False, False] * 2] * 4)
    >>> [told.reason for told in sk.swap_modules_(model, {"0.weight": BundleEntry(mask, "2:4")})]
    ['']
    >>> model[0]
    SparseLinear(2:4, (4, 8), bias=True)
    """
    wanted = list(only)
    new: dict[str, nn.Module] = {}
    told = []
    for name, entry in _entries(bundle):
        if not any(fnmatch.fnmatch(name, glob) for glob in wanted):
            continue
        path, layer = _layer(model, name)
        try:
            packed_layer = _packed_layer(layer, entry)
        except KernelError as error:
            if strict:
                raise PackError(f"{name}: {error}") from error
            told.append(Swapped(path, str(entry.pattern), str(error)))
            continue
        new[path] = packed_layer
        size = layer.weight.numel() * layer.weight.element_size()
        told.append(Swapped(path, str(entry.pattern), "", packed_layer.packed.nbytes, size))
    for path, layer in new.items():
        parent, _, last = path.rpartition(".")
        setattr(model.get_submodule(parent), last, layer)
    return told


def _entries(bundle: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(bundle, Mapping) or callable(getattr(bundle, "items", None)):
        yield from bundle.items()
        return
    raise PackError(
        "a bundle maps names to entries with mask, pattern, rows and cols; "
        f"got {type(bundle).__name__}."
    )


def _layer(model: nn.Module, name: str) -> tuple[str, Any]:
    """Return path and layer of an entry's name, which may end in `.weight`."""
    for path in (name, name.removesuffix(".weight")):
        try:
            layer = model.get_submodule(path)
        except AttributeError:
            continue
        if path and hasattr(layer, "weight"):
            return path, layer
    raise PackError(f"the model has no layer {name!r} with a weight.")


def _packed_layer(layer: Any, entry: Any) -> Any:
    if getattr(layer, "parametrizations", None):
        raise PackError(
            f"its weight is computed by parametrizations ({', '.join(layer.parametrizations)}); "
            "remove them first, leaving the masked weight."
        )
    rows, cols = getattr(entry, "rows", None), getattr(entry, "cols", None)
    tiles = getattr(entry, "tiles", None)
    packed = pack(layer.weight, entry.mask, entry.pattern, rows, cols, tiles=tiles)
    return sparse_like(layer, packed)
