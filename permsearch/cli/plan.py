"""`--dry-run`: what would be searched, what is finished, what is left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permsearch.cli.options import write_output
from permsearch.cli.skipped import tell_skipped
from permsearch.cli.table import SHAPE, TENSOR, Column, Table, name_width
from permsearch.io.bundle import MaskBundle
from permsearch.io.bundle_writer import refuse_other_run
from permsearch.io.jsontext import json_text
from permsearch.io.manifest import MANIFEST
from permsearch.io.select import Selection
from permsearch.io.source import TensorSource
from permsearch.patterns import NM, Pattern

_PLAN = (
    TENSOR,
    SHAPE,
    Column("type", lambda row: str(row["dtype"]), 9, left=True),
    Column("groups", lambda row: "" if row["groups"] is None else str(row["groups"]), 6),
    Column("action", lambda row: str(row["action"]), 8, left=True),
)


def show_plan(
    selection: Selection,
    pattern: Pattern,
    settings: Mapping[str, Any],
    source: TensorSource,
    out: Path | None,
    json_file: str | None,
) -> None:
    """Show what a run would do; nothing is read, searched or written but the JSON asked for."""
    finished = _finished(out, settings, source)
    rows = _plan(selection, pattern, finished)
    table = Table(_PLAN, name_width([row["tensor"] for row in rows]), quiet=json_file == "-")
    for row in rows:
        table.add(row)
    table.show()
    tell_skipped(selection, every=True)
    skipped = [{"tensor": skip.name, "reason": skip.reason} for skip in selection.skipped]
    content = {"dry_run": True, "settings": settings, "rows": rows, "skipped": skipped}
    write_output(json_file, json_text(content))


def _finished(out: Path | None, settings: Mapping[str, Any], source: TensorSource) -> set[str]:
    if out is None or not (out / MANIFEST).exists():
        return set()
    bundle = MaskBundle.load(out, partial=True)
    refuse_other_run(out, bundle.manifest, settings, source.where)
    return set(bundle)


def _plan(selection: Selection, pattern: Pattern, finished: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "tensor": info.name,
            "shape": list(info.shape),
            "rows": info.size // info.shape[1],
            "cols": info.shape[1],
            "dtype": info.dtype,
            "pattern": str(pattern),
            "groups": -(-info.shape[1] // pattern.m) if isinstance(pattern, NM) else None,
            "action": "finished" if info.name in finished else "search",
        }
        for info in selection.chosen
    ]
