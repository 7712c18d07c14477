"""What blocks of rows cost: one table of all swaps, and a whole search, held and streamed.

The same integers come out each way; CPU seconds are compared with those of a stack that lies in
memory as one block, as it would without streaming.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import permsearch as ps
from permsearch.streaming.device import Processor
from permsearch.streaming.levels import BLOCK_ROWS, levels_of
from permsearch.streaming.rows import ArrayRows
from permsearch.streaming.stream import StreamOptions, search_rows
from permsearch.streaming.tables import SwapTable

if TYPE_CHECKING:
    import argparse

Row = dict[str, Any]

COLUMNS, ROWS = 4096, 32768
WAYS = {
    "one block in memory": StreamOptions(height=ROWS, memory=1 << 40),
    "blocks in memory": StreamOptions(height=BLOCK_ROWS, memory=1 << 40),
    "blocks in a file": StreamOptions(height=BLOCK_ROWS, memory=0),
}


def source() -> ArrayRows:
    """Return scores of columns whose scales differ as those of a language model's do."""
    rng = np.random.default_rng(0)
    scales = np.exp(0.15 * rng.standard_normal(COLUMNS, np.float32))
    parts = [
        np.abs(rng.standard_normal((4096, COLUMNS), np.float32)) * scales
        for _ in range(ROWS // 4096)
    ]
    return ArrayRows(parts)


def tables(rows: ArrayRows) -> Iterator[Row]:
    """Yield the CPU seconds of one table of all swaps, for each way."""
    order, groups = np.arange(COLUMNS), np.arange(COLUMNS // 4)
    first: float | None = None
    for way, how in WAYS.items():
        with levels_of(rows, 3.0 / 255, budget=how.memory, height=how.height) as levels:
            table = SwapTable(levels, 2, 4, Processor())
            start = time.process_time()
            table.refresh(order, groups)
            seconds = time.process_time() - start
        first = seconds if first is None else first
        yield {"way": way, "cpu_seconds": seconds, "ratio": seconds / first}


def searches(rows: ArrayRows) -> Iterator[Row]:
    """Yield the CPU seconds of whole searches, levels and exact values included."""
    first: float | None = None
    for way, how in WAYS.items():
        found = search_rows(rows, ps.NM(2, 4), how)
        first = found.cpu if first is None else first
        yield {
            "way": way,
            "cpu_seconds": found.cpu,
            "ratio": found.cpu / first,
            "before": found.baseline / found.total,
            "after": found.score / found.total,
        }


def samples(rows: ArrayRows) -> Iterator[Row]:
    """Yield what searches of every k-th row keep of all rows, and their CPU seconds."""
    for stride in (1, 2, 4, 8):
        found = search_rows(rows, ps.NM(2, 4), StreamOptions(most_rows=ROWS // stride))
        yield {
            "rows_searched": ROWS // stride,
            "cpu_seconds": found.cpu,
            "before": found.baseline / found.total,
            "after": found.score / found.total,
        }


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield the tables."""
    del options
    small = ArrayRows([np.abs(ps.instances.gaussian(64, 64, seed=0))])
    for how in WAYS.values():  # compile first
        search_rows(small, ps.NM(2, 4), how)
    rows = source()
    yield "streaming_tables", tables(rows)
    yield "streaming_searches", searches(rows)
    yield "streaming_samples", samples(rows)
