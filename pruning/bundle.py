"""Mask bundles of whole models: `permsearch.io`'s folder, put onto a model and taken off one."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from permsearch import io
from permsearch.arrays import to_numpy
from permsearch.errors import FileError
from permsearch.io.bundle import BundleEntry
from permsearch.io.fingerprint import fingerprint
from permsearch.io.manifest import read_manifest
from permsearch.io.select import Skipped
from pruning.capture import unwrapped
from pruning.errors import BundleMismatch, ValuesLost
from pruning.layers import rows_dim
from pruning.masks import attach_masks_
from pruning.moves_text import moves_from_text

#: How a model has a weight of the bundle.
DENSE, STORED, OTHER = "as it came in", "as stored", "another weight"


@dataclass(frozen=True, slots=True, eq=False)
class MaskBundle(Mapping[str, BundleEntry]):
    """The masks and orders of a model's weights, with how they came about; no values.

    Attributes
    ----------
    entries
        By the weight's name; read from the folder when asked for, if it was loaded.
    settings
        What was asked for.
    skipped
        Weights that were left out, with reasons.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from pathlib import Path
    >>> import pruning, tempfile
    >>> model = nn.Sequential(nn.Linear(8, 4))
    >>> dense = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    >>> made = pruning.prune(model, "2:4", example_inputs=torch.ones(1, 8)).bundle
    >>> fresh = nn.Sequential(nn.Linear(8, 4))
    >>> _ = fresh.load_state_dict(dense)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     made.save(Path(place) / "bundle")
    ...     handles = MaskBundle.load(Path(place) / "bundle").apply_(fresh)
    >>> int((fresh[0].weight != 0).sum())
    16
    """

    entries: Mapping[str, BundleEntry]
    settings: Mapping[str, Any] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> MaskBundle:
        """Return the bundle in a folder, after checking that nothing in it was altered.

        Raises
        ------
        FileError
            The folder holds no bundle, or a truncated or altered one.
        """
        stored = io.MaskBundle.load(folder)
        stored.verify()
        skipped = {skip["tensor"]: skip["reason"] for skip in stored.manifest["skipped"]}
        return cls(stored, stored.settings, skipped)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the bundle into a folder, as `permsearch search --out` does, whole or not at all.

        Raises
        ------
        FileError
            The folder holds something that is not to be, or is no bundle to be, replaced; or it
            cannot be written. What was there stays.
        """
        target = Path(folder)
        taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        if taken and not overwrite:
            raise FileError(f"{target} exists; choose another folder, or pass overwrite=True.")
        if taken:
            read_manifest(target)  # refuses to replace what is no bundle
        aside, old = (target.with_name(f".{target.name}.{os.getpid()}.{n}") for n in ("new", "old"))
        try:
            self._write(aside)
            if taken:
                target.replace(old)
            aside.replace(target)
        except OSError as error:
            if old.exists() and not target.exists():
                old.replace(target)
            if isinstance(error, FileError):
                raise
            raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error
        finally:
            for left in (aside, old):
                shutil.rmtree(left, ignore_errors=True)

    def _write(self, folder: Path) -> None:
        with io.BundleWriter(folder, dict(self.settings), source="model") as writer:
            for entry in self.entries.values():
                record = {k: v for k, v in entry.record.items() if k != "orders"}
                writer.add(record, entry.mask, rows=entry.rows, cols=entry.cols, tiles=entry.tiles)
            writer.finish(list(self.entries), [Skipped(*pair) for pair in self.skipped.items()])

    def masks_for(self, model: nn.Module, *, check: bool = True) -> dict[str, torch.Tensor]:
        """Return the masks in the layout that a model has its weights in.

        Raises
        ------
        BundleMismatch
            A weight is missing, has another shape, or is not the one that the mask was made for.
        """
        return {name: mask for name, (mask, _) in self._placed(model, check=check).items()}

    def _placed(self, model: nn.Module, *, check: bool) -> dict[str, tuple[torch.Tensor, str]]:
        """Return the masks in a model's layout, and which layout that is: see `_layout`."""
        named = dict(unwrapped(model).named_parameters(remove_duplicate=False))
        self._check_shapes(named)
        layouts = {
            name: _layout(entry, named[name]) if check else ""
            for name, entry in self.entries.items()
        }
        other = [name for name, layout in layouts.items() if layout == OTHER]
        if other:
            entry = self.entries[other[0]]
            raise BundleMismatch(
                f"{other[0]} holds other values than the weight that the mask was made for "
                f"(sha256 {entry.record['sha256'][:12]}…), as do {len(other)} of the bundle's "
                f"{len(self)} weights; apply the bundle to that model, or pass check=False if "
                "these are its weights after more training."
            )
        found = {}
        for name, entry in self.entries.items():
            mask = stored_mask(entry) if layouts[name] == STORED else entry.mask
            found[name] = (torch.from_numpy(mask), layouts[name])
        return found

    def _check_shapes(self, named: Mapping[str, torch.Tensor]) -> None:
        """Raise unless the model has all weights, in their shapes."""
        missing = [name for name in self.entries if name not in named]
        odd = [
            name
            for name, entry in self.entries.items()
            if name in named and tuple(named[name].shape) != tuple(entry.record["shape"])
        ]
        told = []
        if missing:
            told.append(f"the model has no weight {missing[0]!r}{_more(missing)}")
        if odd:
            told.append(
                f"{odd[0]} has shape {tuple(named[odd[0]].shape)}, the bundle's mask "
                f"{tuple(self.entries[odd[0]].record['shape'])}{_more(odd)}"
            )
        if told:
            raise BundleMismatch(
                f"{'; '.join(told)}: {len(missing) + len(odd)} of the bundle's {len(self)} weights "
                "do not fit, it is of another model."
            )

    def apply_(
        self,
        model: nn.Module,
        *,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
        check: bool = True,
    ) -> list[torch.utils.hooks.RemovableHandle]:
        """Attach the masks to a model: to the one that was searched, or to what `prune` made of it.

        Parameters
        ----------
        optimizer
            As for `pruning.attach_masks_`.
        check
            Whether the weights must be those that the masks were made for, by their fingerprints.
            Without it, masks are taken to fit the layout that came into the search.

        Raises
        ------
        BundleMismatch
            The bundle is of another model; nothing was changed.

        Warns
        -----
        ValuesLost
            The weights are those that came into `prune`, and its method changed the kept ones:
            they are in the model that it pruned, not in the bundle.
        """
        placed = self._placed(model, check=check)
        masks = {name: mask for name, (mask, _) in placed.items()}
        handles = attach_masks_(model, masks, optimizer=optimizer)
        self._warn_of_lost([name for name, (_, layout) in placed.items() if layout == DENSE])
        return handles

    def _warn_of_lost(self, dense: Sequence[str]) -> None:
        """Warn where a method changed what weights hold that are as they came in."""
        lost = [name for name in dense if _values_changed(self.entries[name])]
        if lost:
            method = self.entries[lost[0]].record["method"]
            warnings.warn(
                f"{lost[0]}{_more(lost)}: method = {method!r} changed the kept values, and this "
                "model has those from before; a bundle holds orders and masks only. Load the "
                "pruned model's own weights first (what pruning.export(bundle, model, "
                'to="safetensors", path=...) wrote of it), then apply the bundle.',
                ValuesLost,
                stacklevel=3,
            )

    def __getitem__(self, name: str) -> BundleEntry:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"MaskBundle({len(self)} weights)"


def _layout(entry: BundleEntry, weight: torch.Tensor) -> str:
    """Return whether a weight is as it came in, as pruning stored it, or another, by its values."""
    own = fingerprint(to_numpy(weight, entry.name))
    if own == entry.record["sha256"]:
        return DENSE
    return STORED if own == entry.record.get("stored_sha256") else OTHER


def _values_changed(entry: BundleEntry) -> bool:
    """Decide whether pruning did more to a weight than to mask it, and the bundle is of then."""
    return entry.record.get("method", "mask") != "mask" and "stored_sha256" in entry.record


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def stored_mask(entry: BundleEntry) -> Any:
    """Return a mask with its orders applied: how the pattern lies in the pruned model.

    Raises
    ------
    BundleMismatch
        The weight was reordered in a way that an order of rows and one of columns do not tell,
        by a version that did not record it.
    """
    if "moves" in entry.record:
        moved = torch.from_numpy(entry.mask.copy())
        for move in moves_from_text(entry.record["moves"], entry.name):
            move.apply_(moved)
        return moved.numpy()
    if entry.record.get("entangled"):
        raise BundleMismatch(
            f"{entry.name}: its blocks have orders of their own, which this bundle does not hold; "
            "apply it to the model as it was before."
        )
    axis = int(entry.record.get("axis", 1))
    mask = entry.mask
    for order, dim in ((entry.rows, rows_dim(axis)), (entry.cols, axis)):
        if order is not None:
            mask = mask.take(order, axis=dim)
    return mask
