"""Markdown tables of whole networks."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
Lines = tuple[list[str], list[list[str]]]


def networks(rows: list[Row]) -> Lines:
    """Return one line for each network."""
    head = ["network", "search", "weights", "orders", "kept before", "after", "bound", "gap closed"]
    return [*head, "CPU s: trace", "search", "asked for"], [
        [
            row["network"],
            _search(row),
            str(row["weights"]),
            str(row["groups"]),
            *_shares(row),
            f"{row['trace_seconds']:.1f}",
            f"{row['search_seconds']:.1f}",
            _asked(row),
        ]
        for row in rows
    ]


def kinds(rows: list[Row]) -> Lines:
    """Return one line for each kind of group."""
    head = ["network", "search", "items", "groups", "share of all"]
    return [*head, "kept before", "after", "bound", "gap closed"], [
        [
            row["network"],
            _search(row),
            row["kind"],
            str(row["count"]),
            f"{row['share']:.3f}",
            *_shares(row),
        ]
        for row in rows
    ]


def scale(rows: list[Row]) -> Lines:
    """Return one line for each traced model."""
    return ["network", "groups", "weights", "CPU s", "allowed", "memory, GB", "allowed"], [
        [
            row["network"],
            str(row["groups"]),
            str(row["weights"]),
            f"{row['cpu_seconds']:.1f}",
            f"{row['limit']:g}",
            f"{row['memory'] / 1e9:.2f}",
            "" if row["memory_limit"] is None else f"{row['memory_limit'] / 1e9:g}",
        ]
        for row in rows
    ]


def _search(row: Row) -> str:
    return "as it is" if row["steps"] is None else f"{row['steps']:,} steps".replace(",", " ")


def _shares(row: Row) -> list[str]:
    room = row["bound"] - row["before"]
    closed = (row["after"] - row["before"]) / room if room > 0 else 0.0
    return [*(f"{row[key]:.4f}" for key in ("before", "after", "bound")), f"{closed:.0%}"]


def _asked(row: Row) -> str:
    if row["floor"] is None:
        return ""
    verdict = "reached" if row["held"] else "missed"
    return f"{row['floor']:.4f} in {row['limit']:g} s: {verdict}"
