"""A stack as bytes in blocks of rows, in memory or in a scratch file: what the search reads.

One level is worth the same everywhere, so sums of levels over any rows are integers that do not
depend on where the blocks are cut.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import FileError
from permsearch.streaming.rows import RowSource, Survey

Bytes = NDArray[np.uint8]

BLOCK_ROWS = 4096  # rows of a block: bytes of 96 columns that stay in the second-level cache


class Levels(Protocol):
    """8-bit scores of a stack.

    Attributes
    ----------
    columns, rows
        Size of the stack.
    """

    @property
    def columns(self) -> int:
        """Number of columns."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def blocks(self) -> Iterator[Bytes]:
        """Yield blocks (columns, width), zero-padded and aligned; one is valid until the next."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldLevels:
    """Blocks in memory."""

    columns: int
    rows: int
    held: tuple[Bytes, ...]

    def blocks(self) -> Iterator[Bytes]:
        """Yield the blocks."""
        return iter(self.held)


@dataclass(frozen=True, slots=True, eq=False)
class FileLevels:
    """Blocks in a file, one read at a time into the same memory."""

    columns: int
    rows: int
    file: IO[bytes]
    widths: tuple[int, ...]

    def blocks(self) -> Iterator[Bytes]:
        """Yield the blocks, read one after another."""
        from permsearch.kernels.sad import padded_bytes

        at, block = 0, None
        for width in self.widths:
            if block is None or block.shape[1] != width:
                block = padded_bytes(self.columns, width)
            self.file.seek(at)
            found = self.file.readinto(block.data)  # type: ignore[attr-defined] # raw files have it
            if found != block.nbytes:
                raise FileError(
                    f"{self.file.name}: expected {block.nbytes:,} bytes at {at:,}, found "
                    f"{found:,}; the scratch file changed while it was in use."
                )
            at += block.nbytes
            yield block


@dataclass(frozen=True, slots=True, eq=False)
class SomeLevels:
    """Some columns of other levels, numbered anew."""

    whole: Levels
    chosen: NDArray[np.int64]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.chosen)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.whole.rows

    def blocks(self) -> Iterator[Bytes]:
        """Yield copies of the columns."""
        from permsearch.kernels.sad import padded_bytes

        for block in self.whole.blocks():
            part = padded_bytes(len(self.chosen), block.shape[1])
            np.take(block, self.chosen, axis=0, out=part)
            yield part


def held_levels(columns: NDArray[np.float32], step: float, height: int = BLOCK_ROWS) -> HeldLevels:
    """Return the levels of columns in memory, shape (C, R)."""
    from permsearch.kernels.quantise import round_levels
    from permsearch.kernels.sad import padded_bytes

    held = []
    for first in range(0, columns.shape[1], height):
        part = np.ascontiguousarray(columns[:, first : first + height])
        block = padded_bytes(*part.shape)
        round_levels(part, np.float32(1 / step), np.float32(255), block)
        held.append(block)
    count, rows = columns.shape
    return HeldLevels(count, rows, tuple(held))


def step_of(seen: Survey, n: int, m: int, rows: int) -> float:
    """Return what a level is worth: chosen so that rounding and clipping hurt least."""
    from permsearch.kernels.quantise import clip_of

    sample = np.ascontiguousarray(seen.sample.T)
    clip = clip_of(sample, sample.sum(axis=1, dtype=np.float64), n, m, rows)
    return clip / 255 if clip > 0 else 1.0


@contextmanager
def levels_of(
    source: RowSource,
    step: float,
    *,
    budget: int,
    scratch: Path | None = None,
    height: int = BLOCK_ROWS,
) -> Iterator[Levels]:
    """Make the levels of a stack, hold them while they are used, and drop them at the end.

    Parameters
    ----------
    step
        What a level is worth.
    budget
        Bytes that may be held; beyond that the blocks go to a file.
    scratch
        Folder for that file, by default the system's for temporary files. It takes columns x rows
        bytes and has no name, so that nothing is left behind by a process that is killed.
    height
        Rows of a block. The levels' sums do not depend on it.

    Raises
    ------
    FileError
        The folder has no room.
    """
    if source.columns * (source.rows + 32) <= budget:
        yield HeldLevels(source.columns, source.rows, tuple(_packed(source, step, height)))
        return
    where = Path(tempfile.gettempdir() if scratch is None else scratch)
    try:
        where.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=where, buffering=0)  # noqa: SIM115 -- closed below
    except OSError as error:
        raise _no_room(where, source, error) from error
    with file:
        widths = []
        for block in _packed(source, step, height, again=True):
            try:
                _write(file, block)
            except OSError as error:
                raise _no_room(where, source, error) from error
            widths.append(block.shape[1])
        yield FileLevels(source.columns, source.rows, file, tuple(widths))


def _write(file: IO[bytes], block: Bytes) -> None:
    view = block.data.cast("B")
    while view:
        view = view[os.write(file.fileno(), view) :]


def _no_room(where: Path, source: RowSource, error: OSError) -> FileError:
    size = source.columns * source.rows
    return FileError(
        f"{where}: a scratch file of {size / 1e9:.1f} GB cannot be written "
        f"({error.strerror or error}); name a folder with room by --scratch."
    )


def _packed(source: RowSource, step: float, height: int, *, again: bool = False) -> Iterator[Bytes]:
    """Yield the blocks; with `again`, full ones in the same memory."""
    from permsearch.kernels.rows import pack_rows
    from permsearch.kernels.sad import padded_bytes

    left, used = source.rows, 0
    size = min(height, left)
    block = padded_bytes(source.columns, size)
    for chunk in source.chunks():
        scale = chunk.dtype.type(1 / step)
        first = 0
        while first < len(chunk):
            count = min(size - used, len(chunk) - first)
            pack_rows(chunk[first : first + count], scale, block, used)
            first, used, left = first + count, used + count, left - count
            if used == size:
                yield block
                used, size = 0, min(height, left)
                if not again or block.shape[1] != -(-size // 32) * 32:
                    block = padded_bytes(source.columns, size)
                elif size:
                    block[:, size:] = 0
