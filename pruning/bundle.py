"""Mask bundles of whole models: `permsearch.io`'s folder, put onto a model and taken off one."""

from __future__ import annotations

import os
import shutil
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
from pruning.errors import BundleMismatch
from pruning.layers import rows_dim
from pruning.masks import attach_masks_
from pruning.moves_text import moves_from_text


@dataclass(frozen=True, slots=True, eq=False)
class MaskBundle(Mapping[str, BundleEntry]):
    """The masks and orders of a model's weights, with how they came about.

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
        named = dict(unwrapped(model).named_parameters(remove_duplicate=False))
        found = {}
        for name, entry in self.entries.items():
            if name not in named:
                raise BundleMismatch(f"the model has no weight {name!r}; it is another model.")
            if tuple(named[name].shape) != tuple(entry.record["shape"]):
                raise BundleMismatch(
                    f"{name} has shape {tuple(named[name].shape)}, the bundle's mask "
                    f"{tuple(entry.record['shape'])}; it is another model."
                )
            found[name] = torch.from_numpy(_mask_for(entry, named[name], check=check))
        return found

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
        """
        masks = self.masks_for(model, check=check)
        return attach_masks_(model, masks, optimizer=optimizer)

    def __getitem__(self, name: str) -> BundleEntry:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"MaskBundle({len(self)} weights)"


def _mask_for(entry: BundleEntry, weight: torch.Tensor, *, check: bool) -> Any:
    """Return an entry's mask in the layout of the weight, which its fingerprint tells."""
    if not check:
        return entry.mask
    own = fingerprint(to_numpy(weight, entry.name))
    if own == entry.record["sha256"]:
        return entry.mask
    if own == entry.record.get("stored_sha256"):
        return stored_mask(entry)
    raise BundleMismatch(
        f"{entry.name} holds other values (sha256 {own[:12]}…) than the weight that the mask was "
        f"made for ({entry.record['sha256'][:12]}…); apply the bundle to that model, or pass "
        "check=False if these are its weights after more training."
    )


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
