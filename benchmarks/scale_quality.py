"""What bytes and samples of rows lose: ``python -m benchmarks.scale_quality``.

The stack of everything that reads the residual stream in the trained layers of SmolLM2-135M that
lie beside the project (`benchmarks.matrices`), 2:4. A search of the float32 scores (`matching`, the
same moves) is the yardstick; then come bytes of all rows, and of every second, fourth, ... row.
Every order is valued in float64 on all rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks import machine
from benchmarks.matrices import SHARED
from permsearch.io import open_tensors
from permsearch.streaming.rows import ArrayRows
from permsearch.streaming.stream import Streamed, StreamOptions, search_rows

_READERS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
_STRIDES = (1, 2, 4, 8, 16, 32, 64)
_SEEDS = (0, 1, 2)


def stack() -> NDArray[np.float32]:
    """Return the magnitudes of all that reads the residual stream, shape (16128, 576)."""
    source = open_tensors(SHARED / "smollm2_layers.safetensors")
    chosen = [name for name in source.names() if any(reader in name for reader in _READERS)]
    return np.concatenate([np.abs(source.read(name)).astype(np.float32) for name in chosen])


def exact(scores: NDArray[np.float32], solver: str, seed: int) -> dict[str, Any]:
    """Return what a search of float32 scores keeps."""
    start = time.process_time()
    found = ps.search(scores, "2:4", solver=solver, seed=seed)
    cpu = time.process_time() - start
    return {"how": f"float32, `{solver}`", "cpu_seconds": cpu, **shares(found)}


def shares(found: Any) -> dict[str, float]:
    """Return what is kept, as shares of all scores."""
    total = found.total
    return {key: getattr(found, key) / total for key in ("baseline", "score", "bound")}


def sampled(scores: NDArray[np.float32], stride: int, seed: int) -> dict[str, Any]:
    """Return what a search of every so-manieth row as bytes keeps."""
    most = -(-len(scores) // stride)
    found: Streamed = search_rows(
        ArrayRows([scores]), ps.NM(2, 4), StreamOptions(seed=seed, most_rows=most)
    )
    rows = "all rows" if stride == 1 else f"1 row in {stride}"
    told = f"bytes, {rows} ({most:,})"
    return {"how": told, "cpu_seconds": found.cpu, **shares(found)}


def rows(solvers: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each way: medians over seeds."""
    scores = stack()
    ways: list[Callable[[int], dict[str, Any]]] = [
        *(partial(exact, scores, name) for name in solvers),
        *(partial(sampled, scores, stride) for stride in _STRIDES),
    ]
    ps.search(scores[:64], "2:4", solver="matching")  # compiled before the clock starts
    for way in ways:
        runs = [way(seed) for seed in _SEEDS]
        row = {"how": runs[0]["how"]}
        for key in ("cpu_seconds", "baseline", "score", "bound"):
            row[key] = float(np.median([run[key] for run in runs]))
        row["gain"] = row["score"] - row["baseline"]
        yield row


def main() -> None:
    """Print a table as Markdown and write a JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_quality")
    parser.add_argument("--solvers", nargs="*", default=["matching"])
    parser.add_argument("--json", type=Path, default=Path("out/scale_quality.json"))
    given = parser.parse_args()
    found, best = [], None
    print("| scores | CPU s | kept before | after | gain to the first |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows(given.solvers):
        best = row["gain"] if best is None else best
        row["to_first"] = row["gain"] / best
        print(
            f"| {row['how']} | {row['cpu_seconds']:.2f} | {row['baseline']:.5f} "
            f"| {row['score']:.5f} | {100 * row['to_first']:.1f} % |",
            flush=True,
        )
        found.append(row)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"about": machine.describe(), "rows": found}, indent=1))


if __name__ == "__main__":
    main()
