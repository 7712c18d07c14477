"""The mask bundle: a folder of masks and orders that explains itself, read with numpy alone.

==========================  =======================================================================
`manifest.json`             what was run, and a record for every tensor
`masks.safetensors`         uint8, one bit per entry in row-major order, lowest bit first, 1 = kept
`permutations.safetensors`  int32, position -> old index
`parts/`                    one file per finished tensor while a run is under way
==========================  =======================================================================
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.io.safetensors_file import SafetensorsFile
from permsearch.io.source import near_names
from permsearch.orders import Order, as_order
from permsearch.patterns import Mask, Pattern, parse_pattern

FORMAT = "permsearch.bundle"
SCHEMA = 1
MANIFEST, MASKS, ORDERS, PARTS = (
    "manifest.json",
    "masks.safetensors",
    "permutations.safetensors",
    "parts",
)

Record = Mapping[str, Any]


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
    order_keys: Mapping[str, str]  # "rows" or "cols" -> name in `orders`

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
    record
        Everything else the manifest tells.
    """

    name: str
    pattern: Pattern
    mask: Mask
    rows: Order | None
    cols: Order | None
    record: Record


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
        """The manifest's record of every tensor."""
        return {name: stored.record for name, stored in self._stored.items()}

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
        return BundleEntry(name, pattern, mask, rows, cols, stored.record)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __repr__(self) -> str:
        return f"MaskBundle({str(self.folder)!r}, {len(self)} tensors)"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a bundle.

    Raises
    ------
    FileError
        It is missing, unreadable, foreign, or of a newer schema.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise FileError(f"{folder}: not a mask bundle, it has no {MANIFEST}.") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: not JSON ({error}).") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileError(f"{path}: not the manifest of a mask bundle.")
    if manifest.get("schema") != SCHEMA:
        raise FileError(
            f"{path}: schema {manifest.get('schema')!r}; this version reads {SCHEMA}, a newer "
            "permsearch may read it."
        )
    lacking = {"complete", "settings", "tensors", "skipped"} - manifest.keys()
    if lacking:
        raise FileError(f"{path}: damaged, {', '.join(sorted(lacking))} missing.")
    return manifest


def _merged(folder: Path, manifest: Record) -> dict[str, Stored]:
    if not manifest["tensors"]:
        return {}
    masks = SafetensorsFile.open(folder / MASKS)
    orders = SafetensorsFile.open(folder / ORDERS)
    return {
        name: Stored(record, masks, orders, name, record["orders"])
        for name, record in manifest["tensors"].items()
    }


def read_parts(folder: Path) -> Iterator[tuple[str, Stored]]:
    """Yield the finished tensors of a run that did not end; damaged parts are left out."""
    for path in sorted((folder / PARTS).glob("*.safetensors")):
        try:
            part = SafetensorsFile.open(path)
            record = json.loads(part.metadata["record"])
            stored = Stored(record, part, part, "mask", {axis: axis for axis in record["orders"]})
            stored.bits()
        except (FileError, ValueError, KeyError):
            continue
        yield record["tensor"], stored
