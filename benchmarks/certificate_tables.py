"""Markdown tables of bounds: proven optima, certified gaps, missed shares, limits of patterns."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
Lines = tuple[list[str], list[list[str]]]

_HEURISTICS = ("deal", "swap", "window", "matching", "anneal", "auto")
_KINDS = ("unstructured", "row", "spectral", "partition")


def optima(rows: list[Row]) -> Lines:
    """Return one line for each matrix that was to be proven optimal."""
    head = ["matrix", "rows x columns", "best found", "bound", "status", "CPU s", "allowed"]
    return head, [
        [
            row["matrix"],
            f"{row['rows']} x {row['cols']}",
            f"{row['retained']:.5f}",
            f"{row['bound']:.5f}",
            row["status"],
            _spent(row),
            f"{row['allowed']:g} s",
        ]
        for row in rows
    ]


def gaps(rows: list[Row]) -> Lines:
    """Return one line for each bound of a matrix with a known good order."""
    head = ["matrix", "rows x columns", "pricings", "kept", "bound", "slack", "gap", "allowed gap"]
    return [*head, "of gain", "CPU s", "allowed"], [
        [
            row["matrix"] + (f", segments of {row['segment']}" if row["segment"] else ""),
            f"{row['rows']} x {row['cols']}",
            "1" if row["pricings"] else "until none pays",
            f"{row['retained']:.5f}",
            f"{row['bound']:.6f}",
            f"{row['slack']:.0e}",
            f"{100 * row['gap']:.3f} %",
            f"{100 * row['goal']:.2f} %",
            f"{100 * row['of_gain']:.1f} %",
            _spent(row),
            f"{row['allowed']:g} s",
        ]
        for row in rows
    ]


def quick(rows: list[Row]) -> Lines:
    """Return one line for each bound of a large matrix."""
    head = ["matrix", "rows x columns", "kind", "bound", "slack", "CPU s"]
    return head, [
        [
            row["matrix"],
            f"{row['rows']} x {row['cols']}",
            row["kind"],
            f"{row['bound']:.5f}",
            f"{row['slack']:.0e}",
            f"{row['cpu_seconds']:.2f}",
        ]
        for row in rows
    ]


def pairing(rows: list[Row]) -> Lines:
    """Return one line for each proof of 1:2."""
    head = ["matrix", "rows x columns", "kept", "bound", "gap", "CPU s"]
    return head, [
        [
            row["matrix"],
            f"{row['rows']} x {row['cols']}",
            f"{row['retained']:.6f}",
            f"{row['bound']:.6f}",
            f"{100 * row['gap']:.6f} %",
            _spent(row),
        ]
        for row in rows
    ]


def proven(rows: list[Row]) -> Lines:
    """Return one line for each small instance: optimum, bound, what every heuristic missed."""
    return ["instance", "pattern", "start", "optimum", "bound", *_HEURISTICS], [
        [
            f"{row['kind']} {row['rows']}x{row['cols']}, seed {row['seed']}",
            row["pattern"],
            *(f"{row[key] / row['total']:.5f}" for key in ("start", "optimum", "bound")),
            *(_missed(row["missed"].get(name)) for name in _HEURISTICS),
        ]
        for row in rows
    ]


def limits(rows: list[Row]) -> Lines:
    """Return one line for each pattern on each matrix, the least limit of every kind."""
    return ["matrix", "rows x columns", "pattern", "no order", *_KINDS, "CPU s"], [
        [
            row["matrix"],
            f"{row['rows']} x {row['cols']}",
            f"`{row['pattern']}`",
            f"{row['start']:.4f}",
            *("" if row[kind] is None else f"{row[kind]:.4f}" for kind in _KINDS),
            f"{row['cpu_seconds']:.2f}",
        ]
        for row in rows
    ]


def _missed(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _spent(row: Row) -> str:
    return f"{row['cpu_seconds']:.1f}" + ("" if row["held"] else ", missed")


def pruning(rows: list[Row]) -> Lines:
    """Return one line for each matrix: shares of groups that limits do not rule out."""
    head = ["matrix", "rows x columns", "pairs", "pairs, 3/4 of the rows exact", "triples"]
    return head, [
        [
            row["matrix"],
            f"{row['rows']} x {row['cols']}",
            *(f"{100 * row[key]:.1f} %" for key in ("pairs", "mixed", "triples")),
        ]
        for row in rows
    ]
