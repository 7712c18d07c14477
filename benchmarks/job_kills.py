"""A job killed at random moments, and its twin that was not: ``python -m benchmarks.job_kills``.

``python -m benchmarks.job_kills permute FOLDER -p 2:4 --workers 2 --out OUT`` gives the command
twice, once into OUT.calm and once into OUT, where it is killed (SIGKILL, --kills times) and given
again until it ends. A moment is drawn within the time that the calm run took, divided by the kills;
every second time the clock begins when one more piece is finished, so that large pieces come to
their end. The files of both must be the same, byte for byte; their number and size are told. An
OUT.calm that is there already is taken as it is; --longest then says how many seconds it took.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

_CHUNK = 1 << 24
_LOOK = 0.2  # seconds between two looks at what is finished
_BEGIN = 2.0  # seconds that a process takes to begin
_APART = {"times.json", ".lock"}  # what clocks told, and what holds a folder


def given(arguments: list[str], out: Path) -> list[str]:
    """Return a command of ours with its output."""
    return [sys.executable, "-m", "permsearch", *arguments, "--out", str(out)]


def finished(out: Path) -> int:
    """Return how many pieces lie in the journal of an output."""
    folders = (out.with_name(f"{out.name}.job"), out)
    return sum(len(list((folder / "parts").glob("*.safetensors"))) for folder in folders)


def kill(command: list[str], out: Path, seconds: float, *, piece: bool) -> tuple[float, int] | None:
    """Begin a command and kill it after some seconds, with `piece` once one more is finished.

    Returns
    -------
    tuple
        After how many seconds, and with how many pieces finished; None where it came to its end.
    """
    begun, before = time.perf_counter(), finished(out)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while piece and finished(out) <= before and process.poll() is None:
        time.sleep(_LOOK)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return None if whole(out) else (time.perf_counter() - begun, finished(out))


def whole(out: Path) -> bool:
    """Decide whether an output is there: with its name, and without pieces."""
    if not out.is_dir() or (out / "parts").is_dir():
        return False
    return any(path.name not in _APART for path in out.iterdir())


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


def taken(arguments: list[str], option: str) -> str | None:
    """Take an option of our own out of a command's arguments and return its value."""
    if option not in arguments:
        return None
    place = arguments.index(option)
    value = arguments[place + 1]
    del arguments[place : place + 2]
    return value


def main() -> None:
    """Give the command, kill it, and compare."""
    arguments = sys.argv[1:]
    kills = int(taken(arguments, "--kills") or 5)
    longest = float(taken(arguments, "--longest") or 0)
    told_out = taken(arguments, "--out")
    if told_out is None:
        raise SystemExit(f"{__doc__}")
    out = Path(told_out)
    calm = out.with_name(f"{out.name}.calm")
    begun = time.perf_counter()
    if not calm.exists():
        subprocess.run(given(arguments, calm), check=True, stdout=subprocess.DEVNULL)
    seconds = longest or time.perf_counter() - begun
    dice = random.Random(0)
    told: list[tuple[float, int]] = []
    while len(told) < kills:
        moment = dice.uniform(0.05, 1.0) * seconds / kills
        piece = len(told) % 2 == 1
        found = kill(given(arguments, out), out, moment + (0 if piece else _BEGIN), piece=piece)
        if found is None:
            compare(calm, out)
            for folder in (out, out.with_name(f"{out.name}.job")):  # too late: from the start
                shutil.rmtree(folder, ignore_errors=True)
        else:
            told.append(found)
    subprocess.run(given(arguments, out), check=True, stdout=subprocess.DEVNULL)
    files, size = compare(calm, out)
    times = ", ".join(f"{moment:.1f} s ({pieces} finished)" for moment, pieces in told)
    print(
        f"calm run {seconds:.1f} s; killed {len(told)} times, after {times}; "
        f"{files} files of {size:,} bytes are the same"
    )


if __name__ == "__main__":
    main()
