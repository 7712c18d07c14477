"""Use everything once with the lowest, or with the newest, versions that pyproject.toml allows.

Usage: python .ci/check_versions.py lowest|newest [--compiled]

``lowest`` installs what `.ci/lowest.txt` names, ``newest`` the newest releases that fit together,
both into an environment of their own in front of the one that runs this; torch, and what only
tests need, come from there. Nothing is left behind.

Python runs the search kernels itself, which shows what numpy does to them, and one search is
compiled. With ``--compiled`` numba compiles them all, which takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path

from environments import ROOT, beside, check_requirements, packages_of, pip

HERE = Path(__file__).parent
# torch stays: its builds differ in more than the version. The other two serve its builds only.
KEPT = ("torch", "ninja", "setuptools")
ONE_SEARCH = """
import permsearch as ps

weight = ps.instances.gaussian(16, 32, seed=0)
result = ps.search(weight, "2:4", solver="swap", stop=ps.MaxSteps(3))
assert result.score > result.baseline, result
"""


def install(which: str, python: Path) -> None:
    """Install the lowest or the newest versions."""
    if which == "lowest":
        pip(python, "install", "-qq", "--no-deps", "-r", HERE / "lowest.txt")
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["report"]]
    needed = [line for line in dict.fromkeys(wanted) if not line.startswith(KEPT)]
    pip(python, "install", "-qq", "--upgrade", *needed)


def use(python: Path, folder: Path, *, compiled: bool) -> None:
    """Run the smoke test, and one compiled search, away from the repository."""
    plain = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    # what Python says of integers that wrap, as the random numbers do, is no news
    smoke = plain if compiled else {**plain, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([python, HERE / "smoke.py"], cwd=folder, env=smoke, check=True)
    if not compiled:
        subprocess.run([python, "-c", ONE_SEARCH], cwd=folder, env=plain, check=True)


def main() -> None:
    """Check what the command line says."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("--compiled", action="store_true", help="compile every kernel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        python = beside(folder / "environment", ROOT)
        install(options.which, python)
        own = distributions(path=[str(packages_of(folder / "environment"))])
        found = sorted(f"{item.name.lower()} {item.version}" for item in own)
        check_requirements(python, ["permsearch ", *found])
        print(f"{options.which}: {', '.join(found) or 'all as they are here'}", flush=True)
        if found:
            use(python, folder, compiled=options.compiled)


if __name__ == "__main__":
    main()
