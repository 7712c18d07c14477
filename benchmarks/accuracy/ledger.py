"""A ledger of measured cells that survives being killed, and the file that is kept in the end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.accuracy.base import Cell, Measured, Task


class Ledger:
    """A file of JSON lines, one for each cell that is done.

    A line is written whole and synced before the next cell starts; a line that was cut short is
    ignored, and its cell runs again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Cell, Measured]:
        """Return what is done; of a cell that is there twice, the later one."""
        found = {}
        text = self.path.read_text("utf-8") if self.path.exists() else ""
        for line in text.splitlines():
            try:
                cell, measured = _read(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
            found[cell] = measured
        return found

    def append(self, cell: Cell, measured: Measured, **more: Any) -> None:
        """Add a cell, and have it on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        row = {"cell": asdict(cell), "numbers": dict(measured.numbers), **more}
        row["items"] = {name: [round(v, 6) for v in vs] for name, vs in measured.items.items()}
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size and file.seek(size - 1) is not None and file.read(1) != b"\n":
                file.write(b"\n")  # of a line that was cut short
            file.write((json.dumps(row) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())


def run(
    task: Task, ledger: Ledger, *, only: Sequence[str] = (), limit: int | None = None
) -> dict[Cell, Measured]:
    """Measure the cells that are not done yet, and return all that are.

    Parameters
    ----------
    only
        Parts of keys; a cell runs if its key holds one of them. None given: every cell.
    limit
        At most so many cells now.
    """
    done = ledger.read()
    wanted = [c for c in task.cells() if not only or any(part in c.key for part in only)]
    missing = [cell for cell in dict.fromkeys(wanted) if cell not in done][:limit]
    if not missing:
        return done
    measure = task.open()
    for at, cell in enumerate(missing, 1):
        if cell in ledger.read():  # another process came first
            continue
        start = time.process_time()
        measured = measure(cell)
        seconds = time.process_time() - start
        ledger.append(cell, measured, cpu_seconds=round(seconds, 2))
        print(f"{at}/{len(missing)} {cell.key}: {_told(measured)}, {seconds:.0f} CPU s", flush=True)
    return ledger.read()


def _told(measured: Measured) -> str:
    means = {name: sum(values) / len(values) for name, values in measured.items.items()}
    return ", ".join(f"{name} {value:.4f}" for name, value in {**means, **measured.numbers}.items())


def _read(row: Any) -> tuple[Cell, Measured]:
    return Cell(**row["cell"]), Measured(row["items"], row["numbers"])


def as_results(task: Task, results: Mapping[Cell, Measured], machine: Mapping[str, Any]) -> str:
    """Return the text of the file that is kept: a line for each cell, values rounded."""
    digits = {measure.name: measure.digits + 1 for measure in task.measures}
    rows = []
    for cell, measured in results.items():
        items = {
            name: [round(value, digits[name]) for value in values]
            for name, values in measured.items.items()
            if name in digits
        }
        numbers = {name: float(f"{value:.5g}") for name, value in measured.numbers.items()}
        row = {"cell": asdict(cell), "numbers": numbers, "items": items}
        rows.append(json.dumps(row, separators=(",", ":")))
    body = ",\n".join(rows)
    return f'{{"machine": {json.dumps(dict(machine))},\n"cells": [\n{body}\n]}}\n'


def read_results(path: Path) -> dict[Cell, Measured]:
    """Return what such a file holds; nothing where there is none."""
    if not path.exists():
        return {}
    return dict(map(_read, json.loads(path.read_text("utf-8"))["cells"]))
