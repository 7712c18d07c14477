"""The tables of packed kernels in ``docs/benchmarks.md``, between markers of their names.

``docs/kernels.md`` has one of them, the summary, which is made when every part was measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
SUMMARY = "kernels summary"
FEW = 16  # tokens up to which a layer is bound by reading its weights


def render(page: str, found: dict[str, Any]) -> str:
    """Return the page with the tables of the parts that were measured made anew."""
    for name, content in {**found, **_summary_of(found)}.items():
        marker = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = "\n".join(TABLES[name](content)).replace("\\", r"\\")
        page = marker.sub(rf"\g<1>\n{text}\n\n\g<2>", page)
    return page


def _table(head: list[str], body: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]


def _summary_of(found: dict[str, Any]) -> dict[str, Any]:
    parts = [name for name in TABLES if name not in ("kernel machine", SUMMARY)]
    return {SUMMARY: found} if all(name in found for name in parts) else {}


def _range(rows: list[Row]) -> str:
    found = [row["speedup"] for row in rows]
    ends = [f"{value:.2f}x" for value in (min(found), max(found))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _summary(found: dict[str, Any]) -> list[str]:
    body = []
    for kind in ("float32", "bfloat16"):
        rows = [row for row in found["kernels linear"] if row["dtype"] == kind]
        for pattern in dict.fromkeys(row["pattern"] for row in rows):
            of = [row for row in rows if row["pattern"] == pattern]
            few, many = ([r for r in of if (r["tokens"] <= FEW) == yes] for yes in (True, False))
            if few and many:
                body.append([f"linear, {kind}, `{pattern}`", _range(few), _range(many)])
    for row in found["kernels convolutions"]:
        body.append([f"convolution {row['shape']}, `{row['pattern']}`", "", _range([row])])
    for row in found["kernels encoder"]:
        body.append([f"sentence encoder, {row['packed']} packed", "", _range([row])])
    return _table(["layer", f"up to {FEW} tokens", "more"], body)


def _machine(about: Row) -> list[str]:
    return [", ".join(f"{key} {value}" for key, value in about.items() if key != "psadbw")]


def _linear(rows: list[Row]) -> list[str]:
    tokens = sorted({row["tokens"] for row in rows})
    cases: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in rows:
        key = (row["pattern"], row["shape"], row["dtype"], row["kernel"])
        cases.setdefault(key, {})[row["tokens"]] = row
    head = [
        "pattern",
        "out x in",
        "type",
        "kernel",
        *(f"{count} token{'s' * (count > 1)}" for count in tokens),
    ]
    body = [
        [f"`{key[0]}`", *key[1:], *(f"{held[count]['speedup']:.2f}x" for count in tokens)]
        for key, held in cases.items()
    ]
    return _table(head, body)


def _rows(*columns: tuple[str, str]) -> Callable[[list[Row]], list[str]]:
    def table(rows: list[Row]) -> list[str]:
        body = [[_cell(row[key], key) for _, key in columns] for row in rows]
        return _table([heading for heading, _ in columns], body)

    return table


def _cell(value: Any, key: str) -> str:
    if key == "pattern":
        return f"`{value}`"
    if key == "speedup":
        return f"{value:.2f}x"
    if key == "difference":
        return f"{value:.0e}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


TABLES: dict[str, Callable[[Any], list[str]]] = {
    SUMMARY: _summary,
    "kernel machine": _machine,
    "kernels linear": _linear,
    "kernels unpacking": _rows(
        ("pattern", "pattern"), ("out x in", "shape"), ("tokens", "tokens"),
        ("unpack and multiply, ms", "unpack_and_dense_ms"), ("packed, ms", "sparse_ms"),
        ("speedup", "speedup"),
    ),
    "kernels convolutions": _rows(
        ("pattern", "pattern"), ("weight", "shape"), ("input", "input"),
        ("dense, ms", "dense_ms"), ("packed, ms", "sparse_ms"), ("speedup", "speedup"),
    ),
    "kernels encoder": _rows(
        ("packed", "packed"), ("layers", "layers"), ("batch x tokens", "batch"),
        ("dense, ms", "dense_ms"), ("packed, ms", "sparse_ms"), ("speedup", "speedup"),
        ("largest difference", "difference"),
    ),
}  # fmt: skip
