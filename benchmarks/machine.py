"""Where and with what a measurement was made."""

from __future__ import annotations

import datetime
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "numba", "rustworkx", "torch")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def describe() -> dict[str, Any]:
    """Return the processor, versions, commit and date of a measurement."""
    from permsearch.kernels.sad import HAS_PSADBW

    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "processor": _processor(),
        "psadbw": bool(HAS_PSADBW),
        "threads": 1,
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }
