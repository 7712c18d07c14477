"""The most memory that commands hold: ``python -m benchmarks.scale_peaks FOLDER``.

`search --solver none` (masks as the weights stand), `compare`, `prune` without orders and `export`,
one after another, each as a process of its own. Five times a second the resident memory of the
command and of everything that it started is summed up, pages of mapped files included. What
searching takes beside that is measured by `benchmarks.scale`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import machine

_LOOK = 0.2  # seconds between two looks
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GIB = 1 << 30
_RECIPE = """[[layer]]
match = ["*_proj*", "*lm_head*"]
pattern = "2:4"
permute = false
"""


def resident(process: int) -> int:
    """Return the bytes that a process and its descendants have in memory now."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            sizes[number] = int((folder / "statm").read_text().split()[1]) * _PAGE
    own, more = {process}, True
    while more:
        found = {number for number, parent in parents.items() if parent in own} - own
        own |= found
        more = bool(found)
    return sum(sizes.get(number, 0) for number in own)


def run(arguments: list[str]) -> dict[str, Any]:
    """Run a command and return its wall and CPU seconds and its peak."""
    start, peak = time.perf_counter(), 0
    command = [sys.executable, "-m", "permsearch", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    done = 0
    while not done:
        peak = max(peak, resident(child.pid))
        time.sleep(_LOOK)
        done, status, used = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"permsearch {' '.join(arguments)} ended with {child.returncode}")
    return {
        "command": " ".join(arguments),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_gib": max(peak, used.ru_maxrss * 1024) / _GIB,
    }


def commands(folder: Path, place: Path, globs: list[str], solvers: str) -> dict[str, list[str]]:
    """Return what is given, by the commands' names."""
    some = [part for glob in globs for part in ("-t", glob)]
    recipe, masks = place / "recipe.toml", place / "masks"
    place.mkdir(parents=True, exist_ok=True)
    recipe.write_text(_RECIPE, "utf-8")
    model = str(folder)
    return {
        "search": ["search", model, "-p", "2:4", *some, "--solver", "none", "--out", str(masks)],
        "compare": ["compare", model, "-p", "2:4", *some, "--solvers", solvers],
        "export": ["export", model, "-b", str(masks), "--to", "hf", "--out", str(place / "zeros")],
        "prune": ["prune", model, "-r", str(recipe), "--out", str(place / "pruned")],
    }


def main() -> None:
    """Run, print as Markdown, and write a JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_peaks")
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="*", help="search, compare, export, prune; all without it")
    parser.add_argument("--place", type=Path, help="of what is written; FOLDER.peaks without it")
    parser.add_argument("-t", "--tensor", nargs="*", default=["*_proj.weight", "lm_head.weight"])
    parser.add_argument("--solvers", default="none", help="of compare")
    parser.add_argument("--json", type=Path, default=Path("out/scale_peaks.json"))
    given = parser.parse_args()
    place = given.place or given.folder.with_name(f"{given.folder.name}.peaks")
    found: dict[str, Any] = {}
    print(
        "| command | seconds | CPU seconds | peak memory |\n| --- | --- | --- | --- |", flush=True
    )
    for name, arguments in commands(given.folder, place, given.tensor, given.solvers).items():
        if given.only and name not in given.only:
            continue
        row = run(arguments)
        told = f"{row['seconds']:.0f} | {row['cpu_seconds']:.0f} | {row['peak_gib']:.2f} GiB"
        print(f"| `{row['command']}` | {told} |", flush=True)
        found[name] = row
        for made in (place / "zeros", place / "pruned"):
            shutil.rmtree(made, ignore_errors=True)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    about = {"about": machine.describe(), "rows": found}
    given.json.write_text(json.dumps(about, indent=1), "utf-8")


if __name__ == "__main__":
    main()
