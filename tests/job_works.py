"""For the tests of jobs: works whose tasks misbehave; workers import them from here."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permsearch.errors import FileError, ScoresError
from permsearch.io.parts import Part


@dataclass(frozen=True, slots=True)
class Squares:
    """Returns the square of a number, after what the payload asks for.

    A payload is a number and the name of a mishap; `folder` remembers which tasks have begun.
    """

    folder: Path

    def __call__(self, payload: tuple[int, str]) -> Part:
        """Return the square as record and array."""
        number, mishap = payload
        mark = self.folder / f"begun-{number}"
        first = not mark.exists()
        mark.write_text(str(os.getpid()))
        if first or mishap.endswith("always"):
            _MISHAPS[mishap.removesuffix(" always")](number)
        return Part({"square": number**2}, {"square": np.array([number**2], np.int64)})


def contents(out: Path) -> dict[str, bytes]:
    """Return the bytes of a bundle's files, those that two runs of one command must share."""
    names = ("manifest.json", "masks.safetensors", "permutations.safetensors")
    return {name: (out / name).read_bytes() for name in names}


class Unpicklable(Exception):
    """An error that does not survive pickling."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("lost on the way")
        self.sum = one + two


def _raise(kind: type[Exception], *arguments: Any) -> None:
    raise kind(*arguments)


_MISHAPS = {
    "": lambda number: None,
    "killed": lambda number: os.kill(os.getpid(), signal.SIGKILL),
    "leaves": lambda number: os._exit(3),
    "memory": lambda number: _raise(MemoryError, "no room"),
    "file": lambda number: _raise(FileError, f"{number}: cannot be read"),
    "scores": lambda number: _raise(ScoresError, f"{number}: NaN"),
    "bug": lambda number: _raise(ZeroDivisionError, "by zero"),
    "unpicklable": lambda number: _raise(Unpicklable, 1, 2),
    "slow": lambda number: time.sleep(60),
    "brief": lambda number: time.sleep(0.5),
    "threads": lambda number: _raise(
        ScoresError, ",".join(os.environ[f"{kind}_NUM_THREADS"] for kind in ("NUMBA", "OMP"))
    ),
}
