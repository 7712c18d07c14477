"""Geometry of the bars per layer: what each solver gained and its efficacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_LAYERS = 60  # beyond that the table says more than pictures
LINE, BAR = 16, 10  # height of a line of numbers, and of the bar beside it
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Bar:
    """One solver's two bars in a layer; widths in units of the drawing."""

    solver: str
    y: int
    gain: float
    gain_width: float
    retained: float
    efficacy: float
    efficacy_width: float


@dataclass(frozen=True, slots=True)
class Layer:
    """One tensor's bars."""

    tensor: str
    rows: int
    cols: int
    baseline: float
    height: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class LayerBars:
    """All layers drawn, the ends of both scales, and how many tensors there are."""

    layers: tuple[Layer, ...]
    most_gain: float
    most_efficacy: float
    count: int


def layer_bars(rows: Sequence[Mapping[str, Any]]) -> LayerBars:
    """Return the bars of the largest layers, in the order of the rows."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["tensor"], []).append(row)
    by_size = sorted(grouped, key=lambda name: -grouped[name][0]["rows"] * grouped[name][0]["cols"])
    shown = set(by_size[:MOST_LAYERS])
    drawn = [row for row in rows if row["tensor"] in shown]
    most_gain = max((row["retained"] - row["baseline"] for row in drawn), default=0.0)
    most_efficacy = max((row["efficacy"] for row in drawn), default=0.0)
    layers = tuple(
        _layer(name, group, most_gain or 1.0, most_efficacy or 1.0)
        for name, group in grouped.items()
        if name in shown
    )
    return LayerBars(layers, most_gain, most_efficacy, len(grouped))


def _layer(
    name: str, rows: list[Mapping[str, Any]], most_gain: float, most_efficacy: float
) -> Layer:
    bars = tuple(
        Bar(
            row["solver"],
            LINE * line + (LINE - BAR) // 2,
            row["retained"] - row["baseline"],
            WIDTH * max(0.0, row["retained"] - row["baseline"]) / most_gain,
            row["retained"],
            row["efficacy"],
            WIDTH * max(0.0, row["efficacy"]) / most_efficacy,
        )
        for line, row in enumerate(rows)
    )
    first = rows[0]
    return Layer(name, first["rows"], first["cols"], first["baseline"], LINE * len(rows), bars)
