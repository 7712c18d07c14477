"""Markdown tables of a measurement: what ``docs/benchmarks.md`` and the README quote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import certificate_tables, network_tables

Row = dict[str, Any]


def _table(head: list[str], body: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    yield from ("| " + " | ".join(line) + " |" for line in body)


def _held(row: Row, key: str) -> str:
    if row[key] is None:
        return ""
    digits = 3 if row["measure"] == "efficacy" else 4
    return f"{row[key]:.{digits}f} {'reached' if row[f'{key}_held'] else 'missed'}"


def _ladder(rows: list[Row]) -> Iterator[str]:
    head = ["matrix", "pattern", "solver", "budget, s", "CPU s", "reached", "floor", "aim"]
    yield from _table(
        head,
        [
            [
                row["matrix"],
                row["pattern"],
                row["solver"],
                "" if row["seconds"] is None else f"{row['seconds']:g}",
                f"{row['cpu_seconds']:.2f}",
                f"{row['reached']:.5f}",
                _held(row, "floor"),
                _held(row, "aim"),
            ]
            for row in rows
        ],
    )


def _distances(rows: list[Row]) -> Iterator[str]:
    head = ["columns x rows", "cdist", "float32", "8 bit", "float32 / cdist", "8 bit / float32"]
    body = [
        [
            f"{row['columns']} x {row['rows']}",
            *(f"{row[f'{name}_per_second'] / 1e9:.1f}" for name in ("cdist", "float32", "uint8")),
            f"{row['float32_to_cdist']:.1f}",
            f"{row['uint8_to_float32']:.1f}",
        ]
        for row in rows
    ]
    yield from _table(head, body)


def _assignments(rows: list[Row]) -> Iterator[str]:
    head = ["groups", "scipy, ms", "warm-started, ms", "ratio"]
    body = [
        [
            str(row["groups"]),
            f"{1e3 * row['scipy_seconds']:.3f}",
            f"{1e3 * row['warm_seconds']:.3f}",
            f"{row['warm_to_scipy']:.1f}",
        ]
        for row in rows
    ]
    yield from _table(head, body)


def _window(rows: list[Row]) -> Iterator[str]:
    head = ["budget of `auto`", "lowest ratio of the gains", "median"]
    names = {
        "1x": "the CPU seconds of `window`, 0.05 s at least",
        "10x": "ten times that",
        "paced": "those of a window search at 3 million re-splits a second at 384 rows",
    }
    body = [
        [text, f"{rows[0][f'lowest_{key}']:.3f}", f"{rows[0][f'median_{key}']:.3f}"]
        for key, text in names.items()
    ]
    yield from _table(head, body)


def _allocation(rows: list[Row]) -> Iterator[str]:
    head = ["layers", "budgets", "value", "gap", "status", "CPU s", "chosen"]
    body = [
        [
            f"{row['layers']} {row['what']}",
            row["budgets"],
            f"{row['value']:.5f}",
            f"{row['gap']:.1e}",
            row["status"],
            f"{row['cpu_seconds']:.3f}",
            row["chosen"] if row["what"] == "MiniLM" else "",
        ]
        for row in rows
    ]
    yield from _table(head, body)


def _patterns(rows: list[Row]) -> Iterator[str]:
    head = [
        "pattern",
        "published search",
        "weights",
        "ours at least as good",
        "no order",
        "published",
        "ours",
        "smallest lead",
        "CPU s, published",
        "CPU s, ours",
    ]
    body = [
        [
            f"`{row['pattern']}`",
            row["published_search"],
            str(row["weights"]),
            str(row["better"]),
            *(f"{row[key]:.4f}" for key in ("none", "published", "ours")),
            f"{row['least_gain']:+.5f}",
            f"{row['published_seconds']:.2f}",
            f"{row['ours_seconds']:.2f}",
        ]
        for row in rows
    ]
    yield from _table(head, body)


PARTS: dict[str, Callable[[list[Row]], Iterator[str]]] = {
    "ladder": _ladder,
    "distances": _distances,
    "assignments": _assignments,
    "window_summary": _window,
    "patterns_summary": _patterns,
    "allocation": _allocation,
    "optima": lambda rows: _table(*certificate_tables.optima(rows)),
    "gaps": lambda rows: _table(*certificate_tables.gaps(rows)),
    "long gaps": lambda rows: _table(*certificate_tables.gaps(rows)),
    "quick bounds": lambda rows: _table(*certificate_tables.quick(rows)),
    "pairing": lambda rows: _table(*certificate_tables.pairing(rows)),
    "proven": lambda rows: _table(*certificate_tables.proven(rows)),
    "pruning": lambda rows: _table(*certificate_tables.pruning(rows)),
    "limits": lambda rows: _table(*certificate_tables.limits(rows)),
    "small limits": lambda rows: _table(*certificate_tables.limits(rows)),
    "networks": lambda rows: _table(*network_tables.networks(rows)),
    "networks_kinds": lambda rows: _table(*network_tables.kinds(rows)),
    "networks_scale": lambda rows: _table(*network_tables.scale(rows)),
}


def render(page: str, measured: dict[str, Any]) -> str:
    """Return a page with the tables between its markers made anew.

    A table stands between ``<!-- NAME -->`` and ``<!-- end -->``; names are keys of `PARTS`,
    ``machine`` and ``PART machine``. What was not measured is left as it is.
    """
    for name, rows in measured.items():
        marker = f"<!-- {name} -->"
        if marker not in page:
            continue
        before, _, rest = page.partition(marker)
        _, _, after = rest.partition("<!-- end -->")
        if isinstance(rows, dict):  # of the machine
            lines = [", ".join(f"{key} {value}" for key, value in rows.items())]
        else:
            lines = list(PARTS[name](rows))
        body = "\n".join(lines)
        page = f"{before}{marker}\n\n{body}\n\n<!-- end -->{after}"
    return page
