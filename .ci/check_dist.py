"""Check what a built wheel and source archive hold, and that the wheel works on its own.

Usage: python .ci/check_dist.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGES = ("permsearch", "pruning", "sparsekernels")
TRY_IT = """
import sys
sys.path.insert(0, sys.argv[1])
import permsearch, pruning, sparsekernels
places = [module.__file__ for module in (permsearch, pruning, sparsekernels)]
assert all(place.startswith(sys.argv[1]) for place in places), places
import numpy
result = permsearch.search(numpy.eye(8) + 1, "2:4", stop=permsearch.MaxSteps(5))
assert result.score >= result.baseline, result
import torch
from sparsekernels import build
assert build.cpu_kernels() is not None, "the wheel's kernels do not compile"
packed = sparsekernels.pack(torch.eye(8), None, "vector:8@1")
assert torch.equal(sparsekernels.linear(torch.ones(20, 8), packed), torch.ones(20, 8))
"""


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a folder that fits a pattern."""
    (found,) = folder.glob(pattern)
    return found


def check_names(wheel: Path) -> None:
    """Fail unless the wheel holds the three packages, typed, with all their files, and no more."""
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    foreign = {top for top in tops if top not in PACKAGES and not top.endswith(".dist-info")}
    if foreign or not tops.issuperset(PACKAGES):
        sys.exit(f"{wheel.name} holds {sorted(tops)}, expected {PACKAGES} and the metadata")
    tracked = subprocess.check_output(["git", "ls-files", "--", *PACKAGES], text=True).splitlines()
    missing = sorted(set(tracked) - names)
    extra = sorted(name for name in names - set(tracked) if name.split("/")[0] in PACKAGES)
    if missing or extra:
        sys.exit(f"{wheel.name}: missing {missing}, not in the repository {extra}")


def check_it_runs(wheel: Path) -> None:
    """Fail unless the unpacked wheel imports and searches without the repository."""
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        subprocess.run([sys.executable, "-c", TRY_IT, folder], cwd=folder, check=True)


def check_archive(archive: Path) -> None:
    """Fail unless the source archive holds what a build needs."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    missing = {"pyproject.toml", "LICENSE", "README.md", *(f"{p}/py.typed" for p in PACKAGES)}
    missing -= names
    if missing:
        sys.exit(f"{archive.name} lacks {sorted(missing)}")


def main() -> None:
    """Check the wheel and the archive in the folder given on the command line."""
    folder = Path(sys.argv[1])
    wheel, archive = only(folder, "*.whl"), only(folder, "*.tar.gz")
    check_names(wheel)
    check_it_runs(wheel)
    check_archive(archive)
    print(
        f"{wheel.name} and {archive.name} hold the three packages and nothing else; the wheel runs"
    )


if __name__ == "__main__":
    main()
