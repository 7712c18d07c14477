"""A search over rows that do not fit into memory, from the first look to the exact value."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from permsearch.limits.rounding import up
from permsearch.orders import Order
from permsearch.patterns import NM
from permsearch.streaming.device import Device, Processor
from permsearch.streaming.levels import BLOCK_ROWS, levels_of, step_of
from permsearch.streaming.rows import RowSource, SampledRows, added, survey
from permsearch.streaming.search import CoarseOptions, search_levels, value_of

MEMORY = 2 << 30  # bytes that the search of one group may hold, unless told otherwise
MOST_ROWS = 1 << 21  # rows that are searched; of more, every second, third, ...


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where and how a streamed search works; `search`, `seed` and `most_rows` decide its result.

    Parameters
    ----------
    search
        How far it goes.
    seed
        Of the random halves.
    most_rows
        Rows that are searched: of a taller stack every k-th, with k as small as can be. Values
        are those of all rows.
    device
        Where distances are computed.
    memory
        Bytes of levels that may be held; more go to a scratch file.
    scratch
        Folder of that file.
    height
        Rows of a block.
    """

    search: CoarseOptions = field(default_factory=CoarseOptions)
    seed: int = 0
    most_rows: int = MOST_ROWS
    device: Device = field(default_factory=Processor)
    memory: int = MEMORY // 2
    scratch: Path | None = None
    height: int = BLOCK_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """An order and what it keeps, in float64.

    Attributes
    ----------
    total, baseline, score, bound
        All scores; those kept as the columns stand; those kept in the order found; and a limit that
        no order exceeds (each row's largest N/M).
    steps, cpu, runtime
        Matchings and passes done, CPU and wall-clock seconds.
    """

    order: Order
    total: float
    baseline: float
    score: float
    bound: float
    steps: int
    cpu: float
    runtime: float


def search_rows(source: RowSource, pattern: NM, options: StreamOptions | None = None) -> Streamed:
    """Search one order of the columns of a stack that is read row by row, several times over.

    The scores are rounded to 255 levels for the search, in memory or in a scratch file; the order
    found is valued from the scores themselves, and given up where the columns as they stand keep
    more. Neither the cuts between chunks and blocks nor the device change a bit of the result.

    Parameters
    ----------
    source
        Where the rows come from; `ArrayRows` for arrays.
    pattern
        N:M; M divides the number of columns.

    Examples
    --------
    >>> import numpy as np, permsearch as ps
    >>> from permsearch.streaming.rows import ArrayRows
    >>> from permsearch.streaming.stream import search_rows
    >>> rows = np.abs(ps.instances.gaussian(64, 16, seed=0))
    >>> found = search_rows(ArrayRows([rows]), ps.NM(2, 4))
    >>> found.baseline < found.score <= found.bound < found.total
    True
    """
    options = StreamOptions() if options is None else options
    clock, cpu = time.perf_counter(), time.process_time()
    seen = survey(source)
    start: Order = np.arange(source.columns)
    order, steps = start, 0
    stride = -(-source.rows // options.most_rows)
    some = SampledRows(source, stride) if stride > 1 else source
    step = step_of(seen, pattern.n, pattern.m, some.rows)
    held = levels_of(
        some, step, budget=options.memory, scratch=options.scratch, height=options.height
    )
    pair = (pattern.n, pattern.m)
    rng = np.random.default_rng([options.seed, 0])
    with held as levels:
        top = value_of(levels, start, pair)
        for found in search_levels(levels, start, pair, rng, options.search, options.device):
            steps += found.steps
            last = found.order
        if steps and value_of(levels, last, pair) > top:
            order = last
    baseline, score, bound = _exact(source, pattern, (start, order))
    if score <= baseline:
        order, score = start, baseline
    return Streamed(
        order=order,
        total=seen.total,
        baseline=baseline,
        score=score,
        bound=max(up(bound), score),
        steps=steps,
        cpu=time.process_time() - cpu,
        runtime=time.perf_counter() - clock,
    )


def stand_rows(source: RowSource, pattern: NM) -> Streamed:
    """Return what the columns of a stack keep as they stand, and the limit of all orders.

    One pass over the rows; nothing is searched.
    """
    from permsearch.kernels.rows import kept_rows, limit_rows

    clock, cpu = time.perf_counter(), time.process_time()
    order: Order = np.arange(source.columns)
    keep = source.columns // pattern.m * pattern.n
    total = score = bound = 0.0
    for chunk in source.chunks():
        total = added(total, chunk)
        score = kept_rows(chunk, order, pattern.n, pattern.m, score)
        bound = limit_rows(chunk, keep, bound)
    return Streamed(
        order=order,
        total=total,
        baseline=score,
        score=score,
        bound=max(up(bound), score),
        steps=0,
        cpu=time.process_time() - cpu,
        runtime=time.perf_counter() - clock,
    )


def _exact(source: RowSource, pattern: NM, orders: tuple[Order, Order]) -> tuple[float, ...]:
    """Return what two orders keep and the limit of all, in one pass over the rows."""
    from permsearch.kernels.rows import kept_rows, limit_rows

    baseline = score = bound = 0.0
    keep = source.columns // pattern.m * pattern.n
    first, last = orders
    for chunk in source.chunks():
        baseline = kept_rows(chunk, first, pattern.n, pattern.m, baseline)
        score = kept_rows(chunk, last, pattern.n, pattern.m, score)
        bound = limit_rows(chunk, keep, bound)
    return baseline, score, bound
