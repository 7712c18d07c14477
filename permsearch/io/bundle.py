"""The mask bundle: a folder of masks and orders that explains itself, read with numpy alone.

==========================  =======================================================================
`manifest.json`             what was run, and a record for every tensor
`times.json`                the seconds that each tensor took
`masks.safetensors`         uint8, one bit per entry in row-major order, lowest bit first, 1 = kept
`permutations.safetensors`  int32, position -> old index
`parts/`                    one file per finished tensor while a run is under way
==========================  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.checksums import check_sums
from permsearch.io.manifest import (
    ANEW,
    MASKS,
    ORDERS,
    PARTS,
    Damaged,
    Record,
    read_manifest,
    record_damage,
)
from permsearch.io.parts import stored_parts
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.source import near_names
from permsearch.io.times import with_times
from permsearch.orders import Order, as_order
from permsearch.patterns import Mask, Pattern, parse_pattern


def pack_mask(mask: Mask) -> NDArray[np.uint8]:
    """Return a mask's bits, row-major, lowest bit first."""
    return np.packbits(np.ascontiguousarray(mask).reshape(-1), bitorder="little")


def unpack_mask(bits: NDArray[np.uint8], shape: tuple[int, ...]) -> Mask:
    """Undo `pack_mask` for a mask of the given shape."""
    flat = np.unpackbits(bits, count=math.prod(shape), bitorder="little")
    return flat.view(np.bool_).reshape(shape)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a finished tensor lies: in the merged files, or in a part of its own."""

    record: Record
    masks: SafetensorsFile
    orders: SafetensorsFile
    mask_key: str
    order_keys: Mapping[str, str]  # "rows", "cols" or "tiles" -> name in `orders`

    @property
    def merged(self) -> bool:
        """Whether it lies in the merged files."""
        return self.masks.path.name == MASKS

    def bits(self) -> NDArray[np.uint8]:
        """Return the packed mask, checked against the shape of its record."""
        bits = self.masks.read(self.mask_key)
        expected = -(-math.prod(self.record["shape"]) // 8)
        if bits.dtype != np.uint8 or bits.shape != (expected,):
            raise FileError(
                f"{self.masks.where}: mask {self.mask_key!r} should be {expected:,} bytes, found "
                f"{bits.dtype} of shape {list(bits.shape)}; the bundle is damaged."
            )
        return bits

    def order(self, axis: str) -> Order | None:
        """Return the order of an axis, or None where it was not reordered."""
        key = self.order_keys.get(axis)
        if key is None:
            return None
        stored = self.orders.read(key)
        size = len(stored) if stored.ndim == 1 else -1
        return as_order(stored, size, f"{self.orders.where}: the order {key!r}")

    def tiles(self) -> NDArray[np.int64] | None:
        """Return the orders that the pattern's tiles keep for themselves, if there are any."""
        key = self.order_keys.get("tiles")
        if key is None:
            return None
        stored = self.orders.read(key)
        if stored.ndim != 2:
            raise FileError(
                f"{self.orders.where}: {key!r} should be one row a tile, found shape "
                f"{list(stored.shape)}; the bundle is damaged."
            )
        return stored.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class BundleEntry:
    """One tensor of a bundle.

    Attributes
    ----------
    name
        The tensor's name in the file it came from.
    pattern
        The pattern its mask follows.
    mask
        Boolean, in the layout of the weight that came in, true = kept.
    rows, cols
        Orders, position -> old index; None where an axis stays as it is. With padding, `cols`
        covers the added zero columns too.
    tiles
        For patterns whose tiles keep orders of their own, (tiles, kept): the columns, counted in
        storage order, that a tile keeps, as they stand in its groups; else None.
    record
        Everything else the manifest tells.
    """

    name: str
    pattern: Pattern
    mask: Mask
    rows: Order | None
    cols: Order | None
    tiles: NDArray[np.int64] | None
    record: Record

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.mask.shape))
        axes = [axis for axis in ("rows", "cols", "tiles") if getattr(self, axis) is not None]
        ordered = f", orders of {' and '.join(axes)}" if axes else ""
        return f"<BundleEntry {self.name!r}: {self.pattern} on {size}{ordered}>"


class MaskBundle(Mapping[str, BundleEntry]):
    """A bundle's tensors by name, read when asked for.

    Examples
    --------
    >>> bundle = MaskBundle.load("masks")  # doctest: +SKIP
    >>> bundle["encoder.layer.0.output.dense.weight"].mask.mean()  # doctest: +SKIP
    0.5
    """

    def __init__(self, folder: Path, manifest: Record, stored: Mapping[str, Stored]) -> None:
        self.folder = folder
        self.manifest = manifest
        self._stored = stored

    @classmethod
    def load(cls, folder: str | Path, *, partial: bool = False) -> MaskBundle:
        """Return the bundle in a folder.

        Parameters
        ----------
        folder
            The folder that `permsearch search --out` wrote.
        partial
            Whether the finished tensors of a run that did not end are good enough.

        Raises
        ------
        FileError
            The folder holds no bundle, one of another schema, or a run that did not end.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        stored = _merged(folder, manifest)
        parts = {} if manifest["complete"] else dict(read_parts(folder))
        if not manifest["complete"] and not partial:
            raise FileError(
                f"{folder}: the run that writes this bundle has not ended, {len(stored | parts)} "
                "tensors are finished; give the same command again to go on, or load with "
                "partial=True."
            )
        return cls(folder, manifest, stored | parts)

    @property
    def complete(self) -> bool:
        """Whether the run that wrote the bundle came to its end."""
        return bool(self.manifest["complete"])

    @property
    def settings(self) -> Record:
        """What was asked for: pattern, solver, seed, steps or seconds, and so on."""
        settings: Record = self.manifest["settings"]
        return settings

    @property
    def records(self) -> Mapping[str, Record]:
        """The manifest's record of every tensor, with its times."""
        return {name: stored.record for name, stored in self._stored.items()}

    def verify(self) -> None:
        """Check that the files are those that were written, byte for byte.

        Raises
        ------
        FileError
            A file or the manifest was altered or cut short, or the bundle is older than checksums.
        """
        check_sums(self.folder, self.manifest)

    def stored(self, name: str) -> Stored:
        """Return where a tensor's mask and orders lie."""
        if name not in self._stored:
            raise KeyError(f"{self.folder}: no tensor {name!r}; {near_names(name, self._stored)}")
        return self._stored[name]

    def __getitem__(self, name: str) -> BundleEntry:
        stored = self.stored(name)
        mask = unpack_mask(stored.bits(), tuple(stored.record["shape"]))
        pattern = parse_pattern(stored.record["pattern"])
        rows, cols = stored.order("rows"), stored.order("cols")
        return BundleEntry(name, pattern, mask, rows, cols, stored.tiles(), stored.record)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return f"MaskBundle({str(self.folder)!r}, {len(self)} tensors)"


def _merged(folder: Path, manifest: Record) -> dict[str, Stored]:
    if not manifest["tensors"]:
        return {}
    masks, orders = (_part_of(folder, name) for name in (MASKS, ORDERS))
    stored = {}
    for name, record in with_times(folder, manifest["tensors"]).items():
        _check_holds(masks, [name])
        _check_holds(orders, record["orders"].values())
        stored[name] = Stored(record, masks, orders, name, record["orders"])
    return stored


def _part_of(folder: Path, name: str) -> SafetensorsFile:
    if not (folder / name).exists():
        raise Damaged(f"{folder}: damaged, {name} is missing; copy it here again, or {ANEW}.")
    return SafetensorsFile.open(folder / name)


def _check_holds(file: SafetensorsFile, names: Iterable[str]) -> None:
    for name in names:
        if name not in file.entries:
            raise Damaged(f"{file.where}: damaged, {name!r} is missing; {ANEW}.")


def read_parts(folder: Path) -> Iterator[tuple[str, Stored]]:
    """Yield the finished tensors of a run that did not end; damaged parts are left out."""
    for part in stored_parts(folder / PARTS, record_damage):
        record, file = part.record, part.file
        stored = Stored(record, file, file, "mask", {axis: axis for axis in record["orders"]})
        try:
            stored.bits()
        except (FileError, KeyError):
            continue
        yield record["tensor"], stored
