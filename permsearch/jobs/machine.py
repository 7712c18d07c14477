"""What this machine has to give: cores and memory, within the limits set for this process."""

from __future__ import annotations

import os
from pathlib import Path

_MEMORY_LIMITS = (  # of the container or the batch job: cgroups of version 2 and 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_GUESS = 4 << 30


def cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can bind processes to cores
        return os.cpu_count() or 1


def free_memory() -> int:
    """Return the bytes that can be had, or a guess where the system does not tell."""
    found = [free for limit, used in _MEMORY_LIMITS if (free := _left(limit, used)) is not None]
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            told = dict(line.split(":", 1) for line in lines)
        found.append(int(told["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        pass
    return max(0, min(found, default=_GUESS))


def _left(limit: str, used: str) -> int | None:
    """Return what a limit leaves, or None where there is no such limit."""
    try:
        most, taken = (Path(path).read_text("ascii").strip() for path in (limit, used))
        return int(most) - int(taken)
    except (OSError, ValueError):  # "max" means that there is none
        return None
