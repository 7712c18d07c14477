"""Put packed layers into a network, from a bundle of masks."""

from __future__ import annotations

import fnmatch
from collections import Counter
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

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name}: {self.pattern}, dense: {self.reason}"
        return f"{self.name}: {self.pattern}, {self.nbytes:,} bytes instead of {self.dense_bytes:,}"


class Swaps(list[Swapped]):
    """What happened to the entries of a bundle, in its order; prints as a line for each."""

    def __str__(self) -> str:
        packed = sum(not line.reason for line in self)
        return "\n".join([f"{packed} of {len(self)} layers are packed", *map(str, self)])

    __repr__ = __str__


def swap_modules_(
    model: nn.Module, bundle: Any, *, only: Iterable[str] = ("*",), strict: bool = False
) -> Swaps:
    """Replace the layers whose masks a bundle holds by packed ones, in place.

    Parameters
    ----------
    model
        Its layers' weights are packed as they are now; masks that are attached to them come off
        first (`pruning.detach_masks_`). An entry's orders describe the mask only; what the layer
        computes stays the masked product.
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
    A list with one line for each entry taken, in the bundle's order. Nothing is changed where it
    raises.

    Raises
    ------
    PackError
        For a name that no layer has, where no layer at all can be packed, and with `strict` for
        the first that cannot.

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
    told = Swaps()
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
    if not new:
        raise PackError(_nothing(told, wanted))
    for path, layer in new.items():
        parent, _, last = path.rpartition(".")
        setattr(model.get_submodule(parent), last, layer)
    return told


def _nothing(told: Swaps, wanted: Iterable[str]) -> str:
    """Say why nothing can be swapped: the commonest reason."""
    if not told:
        return f"the bundle has no entry whose name matches {' or '.join(wanted)}."
    reason, count = Counter(line.reason for line in told).most_common(1)[0]
    name = next(line.name for line in told if line.reason == reason)
    more = f" (and {count - 1} more like it)" if count > 1 else ""
    return f"none of {len(told)} layers can be packed; {name}{more}: {reason}"


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
        if _has_mask(layer):
            raise PackError(
                "a mask is attached to its weight; pruning.detach_masks_(model) takes the masks "
                "off and leaves zeros."
            )
        raise PackError(
            f"its weight is computed by parametrizations ({', '.join(layer.parametrizations)}); "
            "remove them first, leaving the masked weight."
        )
    rows, cols = getattr(entry, "rows", None), getattr(entry, "cols", None)
    tiles = getattr(entry, "tiles", None)
    packed = pack(layer.weight, entry.mask, entry.pattern, rows, cols, tiles=tiles)
    return sparse_like(layer, packed)


def _has_mask(layer: Any) -> bool:
    """Decide whether `pruning.attach_masks_` has put a mask on a layer, by its name alone."""
    chains = layer.parametrizations.values()
    return any(type(each).__name__ == "Masked" for chain in chains for each in chain)
