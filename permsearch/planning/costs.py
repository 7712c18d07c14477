"""CPU seconds, memory and scratch of one search, from the shape of its stack.

The formulas count the entries that a method's kernels go through (docs/scaling.md derives them)
and divide by measured speeds. They are estimates: descents may take twice as many passes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from permsearch.planning.speed import Speed
from permsearch.stop import StoppingCriterion
from permsearch.streaming.stream import MOST_ROWS

_MOST_PARTS = 4096  # parts that are matched at once
_MOST_GROUPS = 1024  # groups in a step of annealing
_ASSIGNMENT = 60  # of n groups: n ** 2.5 times as many entries could be priced meanwhile
_STEPS = {"anneal": 4000, "auto": 4000, "assignment": 600}
_SWEEPS = {"swap": 6.0, "matching": 2.0, "coarse": 1.5}  # tables of all swaps a descent prices
_ROUNDS = {"matching": 4, "coarse": 2}
_PASSES = 6  # over a streamed stack's scores: a look, the levels, the values, and a margin
_FIXED = 300 << 20  # bytes of the interpreter and its libraries
_CHUNK = 1 << 28  # bytes of a chunk of rows on its way to bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """A stack to search: N:M of `segments` independent stacks of `columns` by `rows`."""

    columns: int
    rows: int
    n: int
    m: int
    segments: int = 1

    @property
    def entries(self) -> int:
        """Scores in all segments."""
        return self.columns * self.rows * self.segments


@dataclass(frozen=True, slots=True)
class Cost:
    """What a search takes.

    Attributes
    ----------
    cpu
        Seconds of one thread; None where the method has no estimate.
    memory, disk
        Bytes held at most, and of scratch.
    """

    cpu: float | None
    memory: int
    disk: int


def cost_of(
    shape: Shape,
    solver: str,
    stop: StoppingCriterion | None,
    speed: Speed,
    *,
    streamed: bool = False,
    budget: int = 0,
) -> Cost:
    """Return what a search of a stack takes.

    Parameters
    ----------
    streamed
        Whether the stack is read row by row and searched as bytes.
    budget
        Bytes of such levels that may be held; more lie on the disk.
    """
    passes = _PASSES if streamed else 2
    reading = passes * shape.entries / speed.rows
    if streamed:
        stride = -(-shape.rows // MOST_ROWS)
        shape = replace(shape, rows=-(-shape.rows // stride))
    name, limit = ("coarse", None) if streamed else (solver, stop)
    seconds = _seconds(shape, name, limit, speed)
    cpu = None if seconds is None else seconds * shape.segments + reading
    if not streamed:
        return Cost(cpu, _FIXED + _held(shape, solver), 0)
    levels = shape.columns * shape.rows
    held = levels <= budget
    memory = _FIXED + _CHUNK + _tables(shape) + (levels if held else 0)
    return Cost(cpu, memory, 0 if held else levels)


def _seconds(
    shape: Shape, solver: str, stop: StoppingCriterion | None, speed: Speed
) -> float | None:
    """Return the seconds that one stack's search takes, reading apart."""
    horizon = None if stop is None else stop.horizon
    for limit in (None, None) if horizon is None else (horizon.cpu, horizon.seconds):
        if limit is not None:
            return limit / shape.segments
    if solver == "none":
        return 0.0
    if solver in _STEPS:
        given = None if horizon is None or horizon.steps is None else horizon.steps
        steps = _STEPS[solver] if given is None else given / shape.segments
        groups = min(shape.columns // shape.m, _MOST_GROUPS)
        entries = groups**2 * shape.rows + _ASSIGNMENT * groups**2.5
        return float(steps * entries / speed.distances)
    if solver not in _SWEEPS:
        return None
    rate = speed.distances if solver == "coarse" else speed.maxima
    sweeps = _SWEEPS[solver] * shape.columns**2 * shape.rows / rate
    return sweeps + (_matchings(shape, _ROUNDS[solver], rate, speed) if solver in _ROUNDS else 0)


def _matchings(shape: Shape, rounds: int, rate: float, speed: Speed) -> float:
    """Return the seconds of the levels of matching and of the rounds of halves."""
    levels, size = [], 1
    while size < shape.m and shape.m & (shape.m - 1) == 0:
        levels.append((shape.columns // size, max(1, shape.n * 2 * size // shape.m)))
        size *= 2
    levels += [(2 * shape.columns // shape.m, shape.n)] * (rounds if shape.m % 2 == 0 else 0)
    total = 0.0
    for parts, keep in levels:
        blocks = -(-parts // _MOST_PARTS)
        some = parts / blocks
        total += blocks * some**2 * (keep * shape.rows / (2 * rate) + speed.pairing)
    return total


def _held(shape: Shape, solver: str) -> int:
    """Return the bytes of scores, stack, bytes and tables of a search in memory."""
    copies = 3 * 4 * shape.entries + shape.columns * shape.rows
    table = 0 if solver == "none" else 8 * min(shape.columns, 8192) ** 2
    return copies + table


def _tables(shape: Shape) -> int:
    """Return the bytes of a streamed search's tables and of its blocks."""
    wide = 4 if 2 * 255 * shape.n * shape.rows < 1 << 28 else 8
    parts = min(shape.columns, _MOST_PARTS)
    swaps = wide * min(shape.columns, 16384) ** 2
    blocks = 4 * shape.columns * min(shape.rows, 4096)
    return max(swaps, parts**2 * (3 * wide + 4)) + blocks
