"""One tensor of a file that does not fit into memory: searched, masked and told row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from permsearch.arrays import magnitude
from permsearch.io.fingerprint import fingerprint_of
from permsearch.io.parts import Part
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.patterns import NM, Scores
from permsearch.streaming.stream import Streamed, StreamOptions, search_rows, stand_rows

if TYPE_CHECKING:
    from permsearch.orders import Order
    from permsearch.search_all import SearchOptions

MOST_HELD = 1 << 27  # entries of a tensor that is searched in memory: 2.7 GB in all
_ENTRIES = 1 << 24  # of a chunk
_BY_ROWS = ("none", "auto", "coarse", "matching")


def streams(info: TensorInfo, options: SearchOptions) -> bool:
    """Decide whether a tensor is searched row by row, at the coarse level, or valued so.

    That is a matter of its shape, the pattern and the solver, so that it is the same everywhere.
    """
    pattern = options.pattern
    if not isinstance(pattern, NM) or info.size <= MOST_HELD or options.bound:
        return False
    plain = len(info.shape) == 2 and info.shape[1] % pattern.m == 0
    searched = options.permute is None or tuple(options.permute) == ("cols",)
    return plain and searched and pattern.n < pattern.m and options.solver in _BY_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class TensorRows:
    """The scores of one tensor by rows, from a file or an array; a `RowSource`."""

    source: TensorSource
    info: TensorInfo
    weight: NDArray[Any] | None = None

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.info.shape[1]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.info.shape[0]

    def weights(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the weights themselves, multiples of eight rows, each with its first row."""
        height = max(8, _ENTRIES // self.columns // 8 * 8)
        read = getattr(self.source, "read_rows", None)
        held = self.weight
        if held is None and read is None:
            held = self.source.read(self.info.name)
        for first in range(0, self.rows, height):
            last = min(self.rows, first + height)
            if held is not None:
                yield first, held[first:last]
            else:
                assert read is not None
                yield first, read(self.info.name, first, last)

    def whole(self) -> NDArray[Any]:
        """Return the tensor itself."""
        return self.source.read(self.info.name) if self.weight is None else self.weight

    def fingerprint(self) -> str:
        """Return the tensor's fingerprint (`permsearch.io.fingerprint`), some rows at a time."""
        return fingerprint_of(self.info.shape, (part for _, part in self.weights()))

    def chunks(self) -> Iterator[Scores]:
        """Yield the scores; errors name the rows."""
        for first, part in self.weights():
            yield magnitude(part, f"{self.info.name}, rows {first} to {first + len(part) - 1}")


def search_tensor(rows: TensorRows, options: SearchOptions) -> tuple[Streamed, dict[str, Any]]:
    """Return what was found for a tensor, and its row of numbers (`permsearch.rows`)."""
    assert isinstance(options.pattern, NM)
    if options.solver == "none":
        found = stand_rows(rows, options.pattern)
    else:
        found = search_rows(rows, options.pattern, StreamOptions(seed=options.seed))
    total = found.total or 1.0
    room = found.bound - found.baseline
    return found, {
        "tensor": rows.info.name,
        "rows": rows.rows,
        "cols": rows.columns,
        "pattern": str(options.pattern),
        "solver": str(options.solver),
        "seed": options.seed,
        "steps": found.steps,
        "seconds": found.runtime,
        "cpu_seconds": found.cpu,
        "retained": found.score / total,
        "baseline": found.baseline / total,
        "bound": found.bound / total,
        "bound_kind": "row",
        "bound_slack": 0.0,
        "efficacy": (found.score - found.baseline) / room if room > 0 else 1.0,
        "gap": 1 - found.score / found.bound if found.bound > 0 else 0.0,
        "certified": None,
        "status": "stopped",
        "total": found.total,
        "row_padding": 0,
        "padding": 0,
    }


def masked(rows: TensorRows, order: Order, pattern: NM) -> tuple[NDArray[np.uint8], str]:
    """Return the packed mask in the layout of the weight, and the weight's fingerprint.

    The bits are those of `permsearch.io`'s bundles, the fingerprint is that of
    `permsearch.io.fingerprint`.
    """
    bits: list[NDArray[np.uint8]] = []

    def seen() -> Iterator[NDArray[Any]]:
        for _, part in rows.weights():
            mask = np.empty(part.shape, np.bool_)
            mask[:, order] = pattern.keep(magnitude(part)[:, order])
            bits.append(np.packbits(mask.reshape(-1), bitorder="little"))
            yield part

    known = fingerprint_of(rows.info.shape, seen())
    return np.concatenate(bits), known


def tensor_part(
    source: TensorSource,
    info: TensorInfo,
    options: SearchOptions,
    weight: NDArray[Any] | None = None,
) -> Part:
    """Return what a mask bundle stores of a tensor: its record, the packed mask, the order.

    Parameters
    ----------
    weight
        The tensor, where it was sent along; else its rows are read from the source.
    """
    rows = TensorRows(source, info, weight)
    found, row = search_tensor(rows, options)
    assert isinstance(options.pattern, NM)
    bits, known = masked(rows, found.order, options.pattern)
    record = {
        **row,
        "shape": info.shape,
        "dtype": info.dtype,
        "axis": 1,
        "sha256": known,
        "orders": {"cols": info.name},
    }
    return Part(record, {"mask": bits, "cols": found.order.astype(np.int32)})
