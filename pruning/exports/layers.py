"""Which mask lies on which weight, in what layout, and whether it is one of its pattern."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from permsearch.arrays import to_numpy
from permsearch.io.bundle import BundleEntry, pack_mask, unpack_mask
from permsearch.io.fingerprint import fingerprint
from permsearch.orders import Order
from permsearch.patterns import Mask
from pruning.bundle import stored_mask
from pruning.errors import BundleMismatch, ExportError


@dataclass(frozen=True, slots=True, eq=False)
class MaskedLayer:
    """A weight of a model with its mask.

    Attributes
    ----------
    name
        The weight's name in the model, which differs from the bundle's behind a gather.
    entry
        What the bundle tells of it.
    bits
        The mask as a bundle stores it, a bit an entry: all masks of a large model are held at once.
    reordered
        Whether the mask's layout is that after the orders; else the one that came into the search.
    """

    name: str
    entry: BundleEntry
    bits: NDArray[np.uint8]
    reordered: bool

    @classmethod
    def of(
        cls, name: str, entry: BundleEntry, mask: torch.Tensor, *, reordered: bool
    ) -> MaskedLayer:
        """Return the layer that has a mask."""
        return cls(name, entry, pack_mask(mask.numpy()), reordered)

    @property
    def mask(self) -> torch.Tensor:
        """Boolean, true = kept, in the layout that the model has the weight in; made anew."""
        return torch.from_numpy(unpack_mask(self.bits, tuple(self.entry.record["shape"])))

    @property
    def axis(self) -> int:
        """The dimension that a product reads, along which groups of N:M lie."""
        return int(self.entry.record.get("axis", 1))

    @property
    def module(self) -> str:
        """The name of the layer that has the weight."""
        return self.name.rpartition(".")[0]

    @property
    def orders(self) -> tuple[Order | None, Order | None]:
        """The orders of rows and columns in which the mask is one of the pattern's."""
        return (None, None) if self.reordered else (self.entry.rows, self.entry.cols)

    def apply(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the weight with +0.0 for what the mask drops, and the same bits elsewhere."""
        found = weight.detach().clone(memory_format=torch.contiguous_format)
        return found.masked_fill_(~self.mask.to(found.device), 0)

    def check_pattern(self) -> None:
        """Raise where the mask breaks its pattern.

        Raises
        ------
        ExportError
            Naming the weight and its pattern.
        """
        pattern = self.entry.pattern
        lies = self._as_searched()
        if lies is None:  # an older bundle does not hold the orders of its blocks
            lies = self.mask.numpy()
            fits = float(lies.mean()) <= pattern.density + 1e-9
        else:
            fits = pattern.accepts(np.ascontiguousarray(lies))
        if not fits:
            raise ExportError(
                f"{self.name}: its mask breaks {pattern}, {float(lies.mean()):.4f} of the entries "
                "are kept; nothing was written. Masks made otherwise need a bundle of their own."
            )

    def _as_searched(self) -> Mask | None:
        """Return the mask as (rows, columns, *taps) where it should be one of the pattern's."""
        if self.reordered or not self.entry.record.get("entangled"):
            return ordered(self.mask.cpu().numpy(), self.entry, self.orders)
        found = reordered_mask(self.entry)
        return None if found is None else ordered(found.numpy(), self.entry, (None, None))


def ordered(mask: Mask, entry: BundleEntry, orders: tuple[Order | None, Order | None]) -> Mask:
    """Return a mask with its rows and columns in an order, seen as (rows, columns, *taps).

    Padding that the order of columns covers is dropped entries.
    """
    axis = int(entry.record.get("axis", 1))
    lies: NDArray[Any] = np.moveaxis(mask, axis, 1)
    rows, cols = orders
    missing = 0 if cols is None else len(cols) - lies.shape[1]
    if missing > 0:
        lies = np.pad(lies, [(0, 0), (0, missing), *[(0, 0)] * (lies.ndim - 2)])
    for at, order in enumerate((rows, cols)):
        if order is not None:
            lies = lies.take(order, axis=at)
    return lies


def reordered_mask(entry: BundleEntry) -> torch.Tensor | None:
    """Return an entry's mask in the layout after its orders; None where they do not tell it."""
    if entry.record.get("padding"):
        return None
    try:
        return torch.from_numpy(np.ascontiguousarray(stored_mask(entry)))
    except BundleMismatch:
        return None


def masked_layers(
    bundle: Mapping[str, BundleEntry],
    weights: Mapping[str, torch.Tensor],
    attached: Mapping[str, torch.Tensor],
    *,
    check: bool = True,
) -> tuple[MaskedLayer, ...]:
    """Return the masks of a bundle in the layout of a model's weights, each one of its pattern.

    The layout is told by the masks that are attached; else by the fingerprint of the weight; else
    by its zeros, for a weight that was trained further.

    Parameters
    ----------
    weights
        By name; read one at a time.
    attached
        Masks that are on the model.
    check
        Whether a weight that shows no sign of the mask is refused. Without it, such masks are
        taken to lie in the layout that came into the search.

    Raises
    ------
    BundleMismatch
        The bundle is of another model.
    ExportError
        A mask breaks its pattern.
    """
    layers = []
    for name, entry in bundle.items():
        own = find_name(name, weights)
        layer = resolved(own, entry, weights[own], attached.get(own), check=check)
        layer.check_pattern()
        layers.append(layer)
    return tuple(layers)


def find_name(name: str, weights: Collection[str]) -> str:
    """Return where a bundle's weight is in a model: behind a gather it has another name."""
    layer, _, leaf = name.rpartition(".")
    for own in (name, f"{name}.weight", f"{layer}.layer.{leaf}"):
        if own in weights:
            return own
    raise BundleMismatch(f"the model has no weight {name!r}; the bundle is of another model.")


def resolved(
    name: str,
    entry: BundleEntry,
    weight: torch.Tensor,
    attached: torch.Tensor | None,
    *,
    check: bool,
) -> MaskedLayer:
    """Return one weight's mask in the weight's layout: see `masked_layers`."""
    if tuple(weight.shape) != tuple(entry.record["shape"]):
        raise BundleMismatch(
            f"{name} has shape {tuple(weight.shape)}, the bundle's mask "
            f"{tuple(entry.record['shape'])}; it is of another model."
        )
    stored = torch.from_numpy(np.array(entry.mask))
    masks = {False: stored, True: reordered_mask(entry)}
    if attached is not None:
        return _attached(name, entry, attached, masks)
    known = fingerprint(to_numpy(weight.detach(), name))
    for reordered, key in ((True, "stored_sha256"), (False, "sha256")):
        found = masks[reordered]
        if found is not None and known == entry.record.get(key):
            return MaskedLayer.of(name, entry, found, reordered=reordered)
    for reordered in (True, False):
        found = masks[reordered]
        if found is not None and not bool((weight.detach().cpu()[~found] != 0).any()):
            return MaskedLayer.of(name, entry, found, reordered=reordered)
    if not check:
        return MaskedLayer.of(name, entry, stored, reordered=False)
    raise BundleMismatch(
        f"{name}: this is neither the weight that the mask was made for (sha256 "
        f"{entry.record['sha256'][:12]}…, here {known[:12]}…) nor one with zeros where the mask "
        "drops; pass check=False if it is the dense weight after more training."
    )


def _attached(
    name: str,
    entry: BundleEntry,
    attached: torch.Tensor,
    masks: Mapping[bool, torch.Tensor | None],
) -> MaskedLayer:
    own = attached.cpu()
    for reordered in (True, False):
        found = masks[reordered]
        if found is not None and torch.equal(own, found):
            return MaskedLayer.of(name, entry, found, reordered=reordered)
    if entry.record.get("entangled") and int(own.sum()) == int(entry.mask.sum()):
        return MaskedLayer.of(name, entry, own, reordered=True)
    raise BundleMismatch(
        f"{name}: the mask on the model is not the bundle's, in neither layout; export with the "
        "bundle that belongs to it (pruning.current_bundle makes one)."
    )
