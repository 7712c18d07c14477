"""What of a record depends on the machine and the day, kept apart from what does not.

Two runs of one command end with the same manifest, byte for byte, however often either of them
was stopped; only this file differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from permsearch.io.atomic import written_aside
from permsearch.io.jsontext import json_text

TIMES = "times.json"
KEYS = ("seconds", "cpu_seconds")

Record = Mapping[str, Any]


def without_times(record: Record) -> dict[str, Any]:
    """Return a record without what its clock told."""
    return {key: value for key, value in record.items() if key not in KEYS}


def write_times(folder: Path, records: Mapping[str, Record]) -> None:
    """Store what the clocks told of each tensor, if they told anything."""
    times = {
        name: {key: record[key] for key in KEYS if key in record}
        for name, record in records.items()
    }
    if any(times.values()):
        with written_aside(folder / TIMES) as file:
            file.write(json_text(times).encode("utf-8"))


def with_times(folder: Path, records: Mapping[str, Record]) -> dict[str, Record]:
    """Return records that tell their times again, as far as those are known.

    The file may be missing or damaged: nothing but times is lost with it.
    """
    try:
        told = json.loads((folder / TIMES).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        told = None
    times = told if isinstance(told, dict) else {}
    return {name: {**_numbers(times.get(name)), **record} for name, record in records.items()}


def _numbers(times: object) -> dict[str, float]:
    if not isinstance(times, dict):
        return {}
    return {key: times[key] for key in KEYS if isinstance(times.get(key), int | float)}
