"""What workers and Ray cost beside the searches themselves: ``python -m benchmarks.jobs``.

One command, `permsearch search`, is given to one process, two processes, two threads and a Ray of
this machine, on the same tensors. CPU seconds are those of the command and of everything that it
started, also of what outlived it: this process adopts orphans and waits for them (Linux). Every
bundle is compared with the first, byte for byte. With --kills, two workers are killed that many
times at random moments in between.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.machine import describe
from permsearch import instances

_ADOPT = 36  # PR_SET_CHILD_SUBREAPER
_LOOK = 0.2  # seconds between two looks at what runs
_TICKS = os.sysconf("SC_CLK_TCK")
_FILES = ("manifest.json", "masks.safetensors", "permutations.safetensors")
_ENGINES = {
    "one process": (),
    "two processes": ("--workers", "2"),
    "two threads": ("--workers", "2", "--engine", "threads"),
    "Ray": ("--workers", "2", "--engine", "ray"),
}


class Watched:
    """The CPU seconds of all that descends from this process, looked at five times a second.

    Ray does not wait for its workers, so what they used is lost to those who would sum it up at the
    end. What a process uses after the last look is missed; workers are idle by then.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[str, float]] = {}
        self.own = 0.0  # CPU seconds of the looking itself
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        return sum(self.named.values())

    @property
    def named(self) -> dict[str, float]:
        """The same by the names of processes."""
        found: dict[str, float] = {}
        for name, used in list(self._seen.values()):
            found[name] = found.get(name, 0.0) + used
        return found

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK):
            self._look()
            self.own = time.thread_time()

    def _look(self) -> None:
        stats, names = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                head, _, tail = path.read_text().rpartition(")")
                stats[int(path.parent.name)] = tail.split()
                names[int(path.parent.name)] = head.partition("(")[2]
        for number, fields in stats.items():
            if _descends(number, stats):
                used = (int(fields[11]) + int(fields[12])) / _TICKS
                # a number may be used again
                self._seen[number, fields[19]] = (names[number], used)


def _descends(number: int, stats: dict[int, list[str]]) -> bool:
    """Decide whether a process descends from this one."""
    while number in stats:
        number = int(stats[number][1])
        if number == os.getpid():
            return True
    return False


def _wait_for_all() -> None:
    """Wait for everything that the command left behind."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _command(options: argparse.Namespace, path: Path, out: Path, engine: str) -> list[str]:
    asked = ("-p", "2:4", "--solver", options.solver, "--steps", str(options.steps))
    command = [sys.executable, "-m", "permsearch", "search", str(path), *asked]
    return [*command, "--out", str(out), *_ENGINES[engine]]


def _run(command: list[str]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds of a command and all that it started."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with Watched() as watched:
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        wall = time.perf_counter() - wall
        _wait_for_all()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, max(waited, watched.cpu)


def _killed(command: list[str], kills: int, longest: float) -> None:
    """Begin a command and kill it, again and again."""
    dice = random.Random(0)
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.1, 0.5) * longest)
        process.kill()
        process.wait()
        _wait_for_all()


def _same(out: Path, first: Path) -> bool:
    return all((out / name).read_bytes() == (first / name).read_bytes() for name in _FILES)


def _searching(out: Path) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds that the searches themselves tell."""
    times = json.loads((out / "times.json").read_text("utf-8")).values()
    return sum(t["seconds"] for t in times), sum(t["cpu_seconds"] for t in times)


def _loaded(number: int) -> int:
    """Load what a search needs, as a task of Ray."""
    import numba

    import permsearch.jobs.tensors

    del numba, permsearch
    return number


@contextlib.contextmanager
def _plain_ray() -> Iterator[None]:
    """Hold a Ray of two workers as its own call starts it."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


def ray_alone(how: str, wait: float) -> dict[str, float]:
    """Return the CPU seconds of a Ray of two workers that does nothing: begun, and a second.

    `how` is "bare", as `--engine ray` starts it, or "plain", by `ray.init`.
    """
    from permsearch.jobs.own_ray import own_ray

    before = time.process_time()
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with Watched() as watched, own_ray(2) if how == "bare" else _plain_ray():
        own = time.process_time() - before - watched.own
        task = ray.remote(_loaded)
        ray.get([task.remote(number) for number in range(8)])
        time.sleep(2 * _LOOK)
        begun, at = dict(watched.named), time.perf_counter()
        time.sleep(wait)
        seconds = time.perf_counter() - at
        later = sum(watched.named.values()) - sum(begun.values())
    others = sum(begun.values())
    return {"command": own, "others": others, "each_second": later / seconds, **begun}


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each engine."""
    path = folder / "weights.npz"
    rows, columns = options.shape
    weights: dict[str, Any] = {
        f"w{n}": instances.gaussian(rows, columns, seed=n).astype(np.float32)
        for n in range(options.tensors)
    }
    np.savez(path, **weights)
    told: list[dict[str, Any]] = []
    engines = options.engines or list(_ENGINES)
    first = folder / engines[0]
    for engine in engines:
        out = folder / engine
        command = _command(options, path, out, engine)
        if told and options.kills and engine == "two processes":
            _killed(command, options.kills, told[0]["wall"] / 2)
        wall, cpu = _run(command)
        seconds, searching = _searching(out)
        row = {
            "engine": engine,
            "wall": wall,
            "cpu": cpu,
            # what threads tell of a search counts the whole process
            "beside": None if engine == "two threads" else cpu - searching,
            "to_one": cpu / told[0]["cpu"] if told else 1.0,
            "busy": seconds / wall / (1 if engine == "one process" else 2),
            "same_bytes": _same(out, first),
        }
        print(
            "  ".join(
                f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()
            )
        )
        sys.stdout.flush()
        told.append(row)
    return told


def main() -> None:
    """Measure, and write the rows with the machine to a JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("engines", nargs="*", help="which (all): " + ", ".join(_ENGINES))
    parser.add_argument("--tensors", type=int, default=12)
    parser.add_argument("--shape", type=int, nargs=2, default=(1024, 2048), help="rows columns")
    parser.add_argument("--solver", default="anneal")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=0, help="of two processes, before they finish")
    parser.add_argument(
        "--ray-alone",
        choices=("bare", "plain"),
        help="only what an idle Ray costs, started as by --engine ray or by ray.init",
    )
    parser.add_argument("--wait", type=float, default=20.0, help="seconds of idleness")
    parser.add_argument("--json", type=Path, default=Path("out/jobs.json"))
    options = parser.parse_args()
    if options.ray_alone:
        found = ray_alone(options.ray_alone, options.wait)
        print("  ".join(f"{key}={value:.3f}" for key, value in found.items()))
        return
    ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
