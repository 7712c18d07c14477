"""Writing a mask bundle tensor by tensor, so that whatever ends a run keeps what is finished."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.atomic import check_writable, remove_leftovers, written_aside
from permsearch.io.bundle import MaskBundle, Stored, pack_mask, read_parts
from permsearch.io.checksums import with_sums
from permsearch.io.jsontext import json_text, plain
from permsearch.io.lock import FolderLock
from permsearch.io.manifest import (
    FORMAT,
    MANIFEST,
    MASKS,
    ORDERS,
    PARTS,
    SCHEMA,
    Damaged,
    Record,
    read_manifest,
)
from permsearch.io.parts import Part, write_part
from permsearch.io.safetensors_write import Piece, write_safetensors
from permsearch.io.select import Skipped
from permsearch.io.shares import Ended, Share, write_end
from permsearch.io.times import TIMES, without_times, write_times
from permsearch.orders import Order
from permsearch.patterns import Mask


class BundleWriter:
    """Writes a bundle, or goes on with one; a context manager that holds the folder's lock.

    Every finished tensor is a small file of its own in `parts/`, whole or absent; `finish` merges
    them. Until then the manifest says that the run has not ended.

    Parameters
    ----------
    folder
        Where the bundle goes; created if need be.
    settings
        What decides the results: a bundle is only continued with the same ones.
    source
        Where the weights come from; a bundle is only continued from the same place.
    overwrite
        Whether a bundle in the folder is dropped first.
    share
        The share of the work that this process does; other processes may do others meanwhile.

    Raises
    ------
    FileError
        The folder cannot be written, holds other things, is in use by another run, or holds a
        bundle that was made with other settings or from another source.
    """

    def __init__(
        self,
        folder: str | Path,
        settings: Record,
        *,
        source: str,
        overwrite: bool = False,
        share: Share | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.settings: dict[str, Any] = plain(settings)
        self._source = source
        self._open = False
        self._whole = False
        check_writable(self.folder)
        self._lock = FolderLock(self.folder, None if share is None else share.name)
        try:
            self._stored = self._take_over(overwrite)
            if share is None:
                remove_leftovers(self.folder)
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def finished(self) -> Mapping[str, Record]:
        """The records of the tensors that need not be searched again."""
        return {name: stored.record for name, stored in self._stored.items()}

    def check_same_weight(self, name: str, sha256: str) -> None:
        """Refuse to mix weights: a finished tensor must have this fingerprint.

        Raises
        ------
        FileError
            The weight changed since it was searched.
        """
        before = self._stored[name].record["sha256"]
        if before != sha256:
            raise FileError(
                f"{self.folder}: {name!r} was searched with other values (sha256 {before[:12]}…, "
                f"now {sha256[:12]}…); choose another --out, or --overwrite to start anew."
            )

    def add(
        self,
        record: Record,
        mask: Mask,
        *,
        cols: Order | None,
        rows: Order | None = None,
        tiles: NDArray[np.int64] | None = None,
    ) -> None:
        """Store a finished tensor; it is on the disk, whole, when this returns.

        Parameters
        ----------
        record
            Its row of numbers, with `tensor`, `shape`, `pattern` and `sha256`.
        mask
            Boolean, in the layout of the weight that came in, true = kept.
        cols, rows
            Orders, position -> old index; None where an axis stays as it is.
        tiles
            The orders that the pattern's tiles keep for themselves, (tiles, kept), if any.
        """
        self.add_part(packed(record, mask, {"rows": rows, "cols": cols, "tiles": tiles}))

    def add_part(self, part: Part) -> None:
        """Store a finished tensor as `packed` made it, here or in another process."""
        self._open_manifest()
        write_part(self.folder / PARTS, part.record["tensor"], part)

    def finish(self, names: Sequence[str], skipped: Iterable[Skipped] = ()) -> MaskBundle:
        """Merge the parts into the bundle's files and return it.

        Parameters
        ----------
        names
            All names of the source: the bundle keeps their order.
        skipped
            What was left out, for the manifest.
        """
        stored = {**self._stored, **dict(read_parts(self.folder))}
        place = {name: position for position, name in enumerate(names)}
        ordered = sorted(stored, key=lambda name: place.get(name, len(place)))
        chosen = {name: stored[name] for name in ordered}
        write_safetensors(self.folder / MASKS, [_mask_piece(n, s) for n, s in chosen.items()])
        pieces = [piece for entry in chosen.values() for piece in _order_pieces(entry)]
        write_safetensors(self.folder / ORDERS, pieces)
        records = {name: entry.record for name, entry in chosen.items()}
        write_times(self.folder, records)
        self._write_manifest(records, complete=True, skipped=skipped)
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        return MaskBundle.load(self.folder)

    def end_share(self, end: Ended) -> None:
        """Say on the disk that a share of the work has come to its end; merging waits for all.

        A bundle that is whole, and to which the share added nothing, stays as it is.
        """
        if self._whole and not self._open:
            return
        self._open_manifest()
        write_end(self.folder / PARTS, end)

    def _take_over(self, overwrite: bool) -> Mapping[str, Stored]:
        """Return what an earlier run with the same settings finished."""
        others = self._names()
        if not (self.folder / MANIFEST).exists():  # asked last: another share may just have begun
            self._refuse_foreign(others)
            return {}
        if overwrite:
            self._check_ours()
            self._clear()
            return {}
        manifest = read_manifest(self.folder)
        refuse_other_run(self.folder, manifest, self.settings, self._source)
        bundle = MaskBundle.load(self.folder, partial=True)
        self._whole = bundle.complete
        return {name: bundle.stored(name) for name in bundle}

    def _check_ours(self) -> None:
        """Refuse to drop what is no bundle; a damaged one is dropped where nothing else lies."""
        try:
            read_manifest(self.folder)
        except Damaged:
            self._refuse_foreign(self._names() - {MANIFEST, MASKS, ORDERS, TIMES, PARTS})

    def _names(self) -> set[str]:
        return {e.name for e in self.folder.iterdir() if not e.name.startswith(".")}

    def _refuse_foreign(self, others: set[str]) -> None:
        if others:
            raise FileError(
                f"{self.folder}: holds other things ({sorted(others)[0]!r} and so on), not a mask "
                "bundle; choose a new folder."
            )

    def _clear(self) -> None:
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        try:
            for name in (MANIFEST, MASKS, ORDERS, TIMES):
                (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(
                f"{self.folder}: {name} cannot be removed ({error.strerror or error}); choose "
                "another --out."
            ) from error

    def _open_manifest(self) -> None:
        """Say on the disk, once, that a run is under way, keeping what is merged already."""
        if self._open:
            return
        merged = {name: entry.record for name, entry in self._stored.items() if entry.merged}
        self._write_manifest(merged, complete=False)
        check_writable(self.folder / PARTS)
        self._open = True

    def _write_manifest(
        self, records: Mapping[str, Record], *, complete: bool, skipped: Iterable[Skipped] = ()
    ) -> None:
        from permsearch import __version__

        manifest = {
            "format": FORMAT,
            "schema": SCHEMA,
            "permsearch": __version__,
            "numpy": np.__version__,
            "complete": complete,
            "source": self._source,
            "settings": self.settings,
            "tensors": {name: without_times(record) for name, record in records.items()},
            "skipped": [{"tensor": skip.name, "reason": skip.reason} for skip in skipped],
        }
        if complete:
            manifest = with_sums(self.folder, manifest, (MASKS, ORDERS))
        with written_aside(self.folder / MANIFEST) as file:
            file.write(json_text(manifest).encode("utf-8"))


def packed(record: Record, mask: Mask, orders: Mapping[str, NDArray[Any] | None]) -> Part:
    """Return a finished tensor as the bundle stores it: a bit an entry, the orders that it has.

    Parameters
    ----------
    record, mask
        As for `BundleWriter.add`.
    orders
        "rows", "cols" and "tiles", as there; None is left out.
    """
    used = {axis: order for axis, order in orders.items() if order is not None}
    keys = {axis: _order_key(record["tensor"], axis) for axis in used}
    narrow = {axis: order.astype(np.int32) for axis, order in used.items()}
    return Part({**record, "orders": keys}, {"mask": pack_mask(mask), **narrow})


def _order_key(tensor: str, axis: str) -> str:
    return tensor if axis == "cols" else f"{tensor}@{axis}"


def _mask_piece(name: str, stored: Stored) -> Piece:
    size = -(-int(np.prod(stored.record["shape"], dtype=np.int64)) // 8)
    return Piece(name, "uint8", (size,), stored.bits)


def _order_pieces(stored: Stored) -> list[Piece]:
    pieces = []
    for axis, key in stored.record["orders"].items():
        here = stored.order_keys[axis]
        shape = stored.orders.info(here).shape
        pieces.append(Piece(key, "int32", shape, partial(stored.orders.read, here)))
    return pieces


def refuse_other_run(
    folder: Path, manifest: Record, settings: Record, source: str, *, what: str = "a bundle"
) -> None:
    """Refuse to go on with what has other settings or another source, naming the differences.

    Raises
    ------
    FileError
        With the ways out.
    """
    before = {**manifest["settings"], "source": manifest["source"]}
    same = os.path.realpath(manifest["source"]) == os.path.realpath(source)
    now = {**settings, "source": manifest["source"] if same else source}
    keys = sorted(before.keys() | now.keys())
    changed = [key for key in keys if before.get(key) != now.get(key)]
    if changed:
        told = ", ".join(f"{key} {_said(before, key)} (now {_said(now, key)})" for key in changed)
        raise FileError(
            f"{folder}: holds {what} made with {told}; give the same settings to go on, choose "
            "another --out, or --overwrite to start anew."
        )


def _said(settings: Record, key: str) -> str:
    value = settings.get(key)
    return "unset" if value is None else str(value)
