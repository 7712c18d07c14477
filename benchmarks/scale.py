"""A checkpoint larger than memory, planned and permuted: ``python -m benchmarks.scale FOLDER``.

Makes the folder by `benchmarks.scale_checkpoint` where it is not there, runs `permsearch permute`
twice in processes of their own, once with ``--dry-run``, and tells what each took as the system
counts it: seconds, CPU seconds, and the most memory that was held.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.scale_checkpoint import Shape, write

_GIB = 1 << 30


def run(arguments: Sequence[str]) -> dict[str, float]:
    """Run the command line and return its wall and CPU seconds and its peak memory in GiB."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-m", "permsearch", *arguments])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"permsearch {' '.join(arguments)} ended with {child.returncode}")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_gib": used.ru_maxrss * 1024 / _GIB,
    }


def rows(folder: Path, out: Path, solver: str) -> dict[str, Any]:
    """Return what planning and the whole run took, and the searches by kind."""
    common = ["permute", str(folder), "-p", "2:4", "-t", "*_proj", "--solver", solver]
    plan_file, run_file = (out.with_name(f"{out.name}.{kind}.json") for kind in ("plan", "run"))
    planned = run([*common, "--dry-run", "--json", str(plan_file)])
    whole = run([*common, "--out", str(out), "--json", str(run_file)])
    plan = json.loads(plan_file.read_text("utf-8"))
    report = json.loads(run_file.read_text("utf-8"))
    return {
        "planning": {**planned, "estimated_cpu_seconds": plan["cpu_seconds"]},
        "run": {**whole, **{k: report["total"][k] for k in ("baseline", "retained", "bound")}},
        "kinds": list(kinds(plan["searches"], report["groups"])),
    }


def kinds(searches: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for all searches of one shape: CPU seconds, estimated and measured."""
    found = {group["name"]: group for group in groups}
    gathered: dict[tuple[Any, ...], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for search in searches:
        if search["name"] in found:
            key = (search["columns"], search["rows"], search["parts"], search["streamed"])
            gathered.setdefault(key, []).append((search, found[search["name"]]))
    told = []
    for (columns, height, parts, streamed), pairs in gathered.items():
        weights = columns * height * parts * len(pairs)
        cpu = sum(group["cpu_seconds"] for _, group in pairs)
        told.append(
            {
                "searches": len(pairs),
                "columns": columns,
                "rows": height,
                "parts": parts,
                "streamed": streamed,
                "estimated": sum(search["cpu_seconds"] for search, _ in pairs),
                "cpu_seconds": cpu,
                "per_billion": cpu / weights * 1e9,
                **{k: mean([g[k] for _, g in pairs]) for k in ("baseline", "retained", "bound")},
            }
        )
    return told


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def main() -> None:
    """Measure and print, and write a JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, help="the permuted folder; FOLDER.permuted without it")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--solver", default="matching")
    parser.add_argument("--json", type=Path, default=Path("out/scale.json"))
    given = parser.parse_args()
    if not given.folder.exists():
        write(given.folder, Shape(given.layers))
    out = given.out or given.folder.with_name(f"{given.folder.name}.permuted")
    found = {"about": machine.describe(), **rows(given.folder, out, given.solver)}
    for key in ("planning", "run"):
        print(key, found[key])
    for row in found["kinds"]:
        print(row)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
