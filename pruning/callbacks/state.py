"""A bundle as a dictionary of tensors and texts, for checkpoints that are one file."""

from __future__ import annotations

import json
from typing import Any

import torch

from permsearch.io.bundle import BundleEntry, pack_mask, unpack_mask
from permsearch.io.jsontext import plain
from permsearch.patterns import parse_pattern
from pruning.bundle import MaskBundle

_ORDERS = ("rows", "cols", "tiles")


def bundle_state(bundle: MaskBundle) -> dict[str, Any]:
    """Return a bundle as tensors, eight entries of a mask to a byte, and JSON."""
    entries = {}
    for name, entry in bundle.items():
        held = {axis: getattr(entry, axis) for axis in _ORDERS}
        entries[name] = {
            "mask": torch.from_numpy(pack_mask(entry.mask)),
            "record": json.dumps(plain(dict(entry.record))),
            **{axis: torch.tensor(o) for axis, o in held.items() if o is not None},
        }
    about = json.dumps(plain({"settings": bundle.settings, "skipped": bundle.skipped}))
    return {"entries": entries, "about": about}


def bundle_of_state(state: dict[str, Any]) -> MaskBundle:
    """Undo `bundle_state`."""
    entries = {}
    for name, held in state["entries"].items():
        record = json.loads(held["record"])
        orders = {axis: held[axis].numpy() if axis in held else None for axis in _ORDERS}
        mask = unpack_mask(held["mask"].numpy(), tuple(record["shape"]))
        entries[name] = BundleEntry(
            name, parse_pattern(record["pattern"]), mask, **orders, record=record
        )
    return MaskBundle(entries, **json.loads(state["about"]))
