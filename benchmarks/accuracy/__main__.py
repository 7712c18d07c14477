"""Measure what pruning costs in accuracy: ``python -m benchmarks.accuracy TASK`` (see --help).

One thread. Every cell is written to out/accuracy/TASK.jsonl as soon as it is measured, and cells
that stand there are not measured again: stop and start as you like.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.accuracy.base import Task

# What can be measured: each module has TASK and `tables(results)`, which yields (name, lines).
TASKS = {
    "minilm": "benchmarks.accuracy.minilm",
    "compensated": "benchmarks.accuracy.compensated",
    "search_value": "benchmarks.accuracy.search_value",
    "language": "benchmarks.accuracy.language",
    "resnet": "benchmarks.accuracy.images_resnet",
    "vit": "benchmarks.accuracy.images_vit",
}
RESULTS = Path(__file__).parent / "results"


def _one_thread() -> None:
    """Start again with one thread everywhere; kernels fix their number when they are loaded."""
    wanted = {key: "1" for key in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        command = [sys.executable, "-m", "benchmarks.accuracy", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **wanted})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--only", nargs="*", default=[], help="cells whose key holds one of these")
    parser.add_argument("--limit", type=int, help="at most so many cells now")
    parser.add_argument("--list", action="store_true", help="show cells and what is done, run none")
    parser.add_argument(
        "--tables", action="store_true", help="show tables of what is done, run none"
    )
    parser.add_argument("--out", type=Path, default=Path("out/accuracy"))
    parser.add_argument(
        "--page", type=Path, nargs="*", default=[], help="Markdown pages whose tables to make anew"
    )
    parser.add_argument(
        "--results", action="store_true", help=f"write what is done to {RESULTS.name}/"
    )
    return parser.parse_args()


def main() -> None:
    """Run the cells that are missing, then show, and store, the tables."""
    arguments = _arguments()
    _one_thread()
    from benchmarks.accuracy import ledger

    module = import_module(TASKS[arguments.task])
    task: Task = module.TASK
    rows, stored = ledger.Ledger(arguments.out / f"{task.name}.jsonl"), _stored(task)
    if arguments.list:
        done = rows.read()
        for cell in task.cells():
            print("done" if cell in done else "    ", cell.key)
        return
    if arguments.tables:
        results = rows.read() or ledger.read_results(stored)
    else:
        results = ledger.run(task, rows, only=arguments.only, limit=arguments.limit)
    at = {cell: index for index, cell in enumerate(task.cells())}
    results = {c: results[c] for c in sorted(results, key=lambda c: at.get(c, len(at)))}
    _show(module.tables(results), arguments.page)
    if arguments.results:
        from benchmarks import machine

        stored.parent.mkdir(exist_ok=True)
        stored.write_text(ledger.as_results(task, results, machine.describe()), "utf-8")
        print(f"written: {stored} ({stored.stat().st_size:,} bytes)")


def _stored(task: Task) -> Path:
    return RESULTS / f"{task.name}.json"


def _show(found: Iterable[tuple[str, Iterable[str]]], pages: Sequence[Path]) -> None:
    """Print tables, and put them between their markers ``<!-- accuracy NAME -->`` of pages."""
    from benchmarks.accuracy import tables

    texts = {page: page.read_text("utf-8") for page in pages}
    for name, body in found:
        rows = list(body)
        print(f"\n{name}\n", *rows, sep="\n")
        for page, text in texts.items():
            texts[page] = tables.filled(text, f"accuracy {name}", rows)
    for page, text in texts.items():
        page.write_text(text, "utf-8")
        print(f"written: {page}")


if __name__ == "__main__":
    main()
