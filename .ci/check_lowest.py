"""Use everything once with the lowest versions that pyproject.toml names.

Usage: python .ci/check_lowest.py [FOLDER]

Versions of `.ci/lowest.txt` are installed into a folder (a temporary one unless named) that comes
first on the path of the environment that runs this; torch, and what is needed for tests, come from
there. Kernels are compiled anew, which takes some minutes. Not part of `.ci/run`: it does not pass
yet, so the floors in pyproject.toml are what should work, not what was seen to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def check(folder: Path) -> None:
    """Install the versions and run the smoke test on them."""
    packages, cache = folder / "packages", folder / "cache"
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(packages)]
    if not packages.exists():
        subprocess.run([*pip, "-r", str(HERE / "lowest.txt")], check=True)
    paths = [str(packages), str(HERE.parent)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "NUMBA_CACHE_DIR": str(cache),
    }
    subprocess.run([sys.executable, HERE / "smoke.py"], cwd=folder, env=environment, check=True)


def main() -> None:
    """Check in the folder of the command line, or in one that is gone afterwards."""
    if len(sys.argv) > 1:
        check(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as made:
        check(Path(made))


if __name__ == "__main__":
    main()
