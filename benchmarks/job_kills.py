"""A job killed at random moments, and its twin that was not: ``python -m benchmarks.job_kills``.

``python -m benchmarks.job_kills permute FOLDER -p 2:4 --workers 2 --out OUT`` gives the command
twice, once into OUT.calm and once into OUT, where it is killed (SIGKILL, --kills times, at moments
drawn within the time that the calm run took) and given again until it ends. The files of both must
be the same, byte for byte; their number and size are told.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

_CHUNK = 1 << 24
_APART = {"times.json", ".lock"}  # what clocks told, and what holds a folder


def given(arguments: list[str], out: Path) -> list[str]:
    """Return a command of ours with its output."""
    return [sys.executable, "-m", "permsearch", *arguments, "--out", str(out)]


def kill(command: list[str], kills: int, longest: float, dice: random.Random) -> list[float]:
    """Begin a command and kill it, again and again; return after how many seconds each time."""
    after: list[float] = []
    while len(after) < kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = dice.uniform(0.05, 1.0) * longest / kills + 2.0  # a process begins in 2 seconds
        try:
            process.wait(seconds)
            return after  # it came to its end
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            after.append(seconds)
    return after


def compare(calm: Path, killed: Path) -> tuple[int, int]:
    """Return how many files are the same and their bytes.

    Raises
    ------
    SystemExit
        Some differ, or are in one of the folders only.
    """
    names = sorted(path.name for path in calm.iterdir() if path.name not in _APART)
    others = sorted(path.name for path in killed.iterdir() if path.name not in _APART)
    if names != others:
        raise SystemExit(f"other files: {names} and {others}")
    size = 0
    for name in names:
        with (calm / name).open("rb") as one, (killed / name).open("rb") as two:
            while part := one.read(_CHUNK):
                if part != two.read(_CHUNK):
                    raise SystemExit(f"{name} differs")
                size += len(part)
            if two.read(1):
                raise SystemExit(f"{name} differs")
    return len(names), size


def main() -> None:
    """Give the command, kill it, and compare."""
    arguments = sys.argv[1:]
    kills = 5
    if "--kills" in arguments:
        place = arguments.index("--kills")
        kills = int(arguments[place + 1])
        del arguments[place : place + 2]
    if "--out" not in arguments:
        raise SystemExit(f"{__doc__}")
    place = arguments.index("--out")
    out = Path(arguments[place + 1])
    del arguments[place : place + 2]
    calm = out.with_name(f"{out.name}.calm")
    begun = time.perf_counter()
    subprocess.run(given(arguments, calm), check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begun
    after = kill(given(arguments, out), kills, seconds, random.Random(0))
    if len(after) == kills:
        subprocess.run(given(arguments, out), check=True, stdout=subprocess.DEVNULL)
    files, size = compare(calm, out)
    times = ", ".join(f"{moment:.1f}" for moment in after)
    print(
        f"calm run {seconds:.1f} s; killed {len(after)} times, after {times} s; "
        f"{files} files of {size:,} bytes are the same"
    )


if __name__ == "__main__":
    main()
