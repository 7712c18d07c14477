"""Geometry of the picture of time against quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 96, 16, 48
SHORTEST = 1e-4  # seconds; a logarithmic axis has no zero


@dataclass(frozen=True, slots=True)
class Point:
    """A search, or the middle of a solver's searches, in the drawing's coordinates."""

    solver: str
    x: float
    y: float
    tensor: str
    time: float
    efficacy: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid: where, and what to write beside it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Label:
    """A solver's name beside its middle, moved so that names do not cover each other."""

    solver: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Scatter:
    """The picture: points, one middle per solver with its label, and both axes."""

    points: tuple[Point, ...]
    middles: tuple[Point, ...]
    labels: tuple[Label, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def scatter(rows: Sequence[Mapping[str, Any]]) -> Scatter | None:
    """Return the picture of CPU seconds (logarithmic) against efficacy, or None without rows."""
    if not rows:
        return None
    times = [max(SHORTEST, row["cpu_seconds"]) for row in rows]
    ticks = _time_ticks(min(times), max(times))
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    step = _round_step(max(max(row["efficacy"] for row in rows), 1e-3))
    lines = math.ceil(max(row["efficacy"] for row in rows) / step) or 1

    def x(time: float) -> float:
        part = (math.log10(max(SHORTEST, time)) - low) / (high - low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(efficacy: float) -> float:
        return HEIGHT - BOTTOM - efficacy / (lines * step) * (HEIGHT - TOP - BOTTOM)

    def point(solver: str, time: float, efficacy: float, tensor: str) -> Point:
        return Point(solver, x(time), y(efficacy), tensor, time, efficacy)

    points = tuple(
        point(row["solver"], row["cpu_seconds"], row["efficacy"], row["tensor"]) for row in rows
    )
    middles = []
    for solver in dict.fromkeys(row["solver"] for row in rows):
        mine = [p for p in points if p.solver == solver]
        time = math.exp(fmean(math.log(max(SHORTEST, p.time)) for p in mine))
        middles.append(point(solver, time, fmean(p.efficacy for p in mine), f"{len(mine)} tensors"))
    return Scatter(
        points,
        tuple(middles),
        _labels(middles),
        tuple(Tick(x(time), _time_label(time)) for time in ticks),
        tuple(Tick(y(n * step), f"{100 * n * step:g}") for n in range(lines + 1)),
    )


def _round_step(top: float) -> float:
    """Return a round distance of grid lines that makes about five of them."""
    raw = top / 5
    size = 10.0 ** math.floor(math.log10(raw))
    return next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= raw)


def _time_ticks(shortest: float, longest: float) -> list[float]:
    """Return round times that enclose both; only powers of ten where many are needed."""
    first, last = math.floor(math.log10(shortest)), math.ceil(math.log10(longest))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    round_times = [factor * 10.0**n for n in range(first, last + 2) for factor in factors]
    low = max(time for time in round_times if time <= shortest * (1 + 1e-9))
    high = min(time for time in round_times if time > max(longest, low))
    return [time for time in round_times if low <= time <= high]


def _time_label(time: float) -> str:
    if time >= 1:
        return f"{time:g} s"
    return f"{1000 * time:g} ms"


def _labels(middles: list[Point]) -> tuple[Label, ...]:
    """Place names right of their middles, from the top down, at least a line apart."""
    placed: list[Label] = []
    for point in sorted(middles, key=lambda p: p.y):
        y = point.y + 4
        for other in placed:
            if abs(other.x - point.x - 12) < 70 and y - other.y < 15:
                y = other.y + 15
        placed.append(Label(point.solver, point.x + 12, y))
    return tuple(placed)
