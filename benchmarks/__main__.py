"""Measure quality, time and throughput: ``python -m benchmarks`` (see --help).

One thread, CPU seconds, kernels compiled beforehand. Rows go to stdout as they come, and
everything with the machine and the versions to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

# What can be measured: each is a module with `measure(options)`, which yields tables by name.
PARTS = {
    "throughput": "benchmarks.throughput",
    "ladder": "benchmarks.ladder",
    "window": "benchmarks.against_window",
    "certificates": "benchmarks.certificates",
    "proven": "benchmarks.proven",
    "limits": "benchmarks.limits",
    "pruning": "benchmarks.pairs_pruning",
    "patterns": "benchmarks.patterns",
    "row_groups": "benchmarks.row_groups",
    "allocation": "benchmarks.allocation",
    "networks": "benchmarks.networks",
    "streaming": "benchmarks.streaming",
}


def _one_thread() -> None:
    """Start again with one thread everywhere and the BLAS that fits the processor."""
    wanted = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    forced = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    environment = {key: value for key, value in os.environ.items() if key not in forced}
    command = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
    os.execve(sys.executable, command, environment | wanted)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=" | ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=3, help="runs per rung, the median counts")
    parser.add_argument("--longest", type=float, default=60.0, help="skip longer budgets (s)")
    parser.add_argument("--only", default="", help="patterns: texts or weights that contain this")
    parser.add_argument("--rows", type=Path, help="patterns: keep rows here, and go on with them")
    parser.add_argument("--json", type=Path, default=Path("out/benchmarks.json"))
    parser.add_argument("--page", type=Path, help="Markdown page whose tables to make anew")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; choose from {', '.join(PARTS)}")
    return arguments


def _shown(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = []
    for row in rows:
        print(
            "  ".join(f"{key}={_short(value)}" for key, value in row.items() if value is not None)
        )
        sys.stdout.flush()
        kept.append(row)
    return kept


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run the parts that are asked for and write the JSON file."""
    arguments = _arguments()
    _one_thread()
    from benchmarks import machine, tables

    out: dict[str, Any] = {"machine": machine.describe()}
    _shown([out["machine"]])
    for part in arguments.parts:
        out[f"{part} machine"] = out["machine"]
        for name, rows in import_module(PARTS[part]).measure(arguments):
            out[name] = _shown(rows)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(out, indent=1) + "\n")
    print(f"written: {arguments.json}")
    if arguments.page:
        arguments.page.write_text(tables.render(arguments.page.read_text(), out))
        print(f"written: {arguments.page}")


if __name__ == "__main__":
    main()
