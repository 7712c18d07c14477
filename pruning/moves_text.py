"""Moves of a tensor as text: for records of weights whose blocks have orders of their own."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from permsearch.errors import FileError
from pruning.network import Part
from pruning.reorder import Move


def moves_as_text(moves: Sequence[Move]) -> list[dict[str, Any]]:
    """Return plain data that `moves_from_text` reads.

    Examples
    --------
    >>> import numpy as np
    >>> from pruning.reorder import Move
    >>> text = moves_as_text([Move((0,), np.array([1, 0]))])
    >>> moves_from_text(text, "weight")[0].index
    array([1, 0])
    """
    return [
        {
            "dims": list(move.dims),
            "part": None if move.part is None else _part(move.part),
            "index": base64.b64encode(zlib.compress(move.index.astype("<i4").tobytes(), 9)).decode(
                "ascii"
            ),
        }
        for move in moves
    ]


def _part(part: Part) -> list[int]:
    return [part.dim, part.start, part.count]


def moves_from_text(rows: Sequence[Mapping[str, Any]], name: str) -> list[Move]:
    """Return the moves of a tensor of that name.

    Raises
    ------
    FileError
        The text is damaged.
    """
    try:
        return [_move(row, name) for row in rows]
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise FileError(f"{name}: its moves are damaged ({error}).") from error


def _move(row: Mapping[str, Any], name: str) -> Move:
    raw = zlib.decompress(base64.b64decode(row["index"], validate=True))
    index = np.frombuffer(raw, "<i4").astype(np.int64)
    if not np.array_equal(np.sort(index), np.arange(len(index))):
        raise ValueError("an index is no order")
    part = None if row["part"] is None else Part(name, *map(int, row["part"]))
    return Move(tuple(map(int, row["dims"])), index, part)
