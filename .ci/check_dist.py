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

from environments import beside, check_requirements, pip

PACKAGES = ("permsearch", "pruning", "sparsekernels")
SMOKE = Path(__file__).with_name("smoke.py")
# What a user's type checker has to find out about the installed library.
USER = """
import permsearch as ps

result = ps.search([[1.0, 2.0, 3.0, 4.0]], "2:4")
reveal_type(result.retained)
ps.search([[1.0]], 24)
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


def installed(wheel: Path, folder: Path) -> Path:
    """Install the wheel into a fresh environment, which does not see the repository."""
    python = beside(folder)
    pip(python, "install", "-qq", "--no-deps", "--no-index", wheel.resolve())
    return python


def check_it_runs(python: Path, folder: Path) -> None:
    """Fail unless everything works once in the fresh environment, away from the repository."""
    subprocess.run([python, SMOKE, python.parents[1]], cwd=folder, check=True)
    program = python.with_name("permsearch")
    told = subprocess.check_output([program, "--help"], text=True, cwd=folder)
    lost = [name for name in ("search", "permute", "prune", "doctor") if f"  {name} " not in told]
    if lost:
        sys.exit(f"the installed command lacks {lost}:\n{told}")


def check_types(python: Path, folder: Path) -> None:
    """Fail unless a user's mypy sees the types of the installed library."""
    (folder / "user.py").write_text(USER, "utf-8")
    mypy = [sys.executable, "-m", "mypy", "--python-executable", str(python), "--strict"]
    options = ["--follow-imports=silent", "--cache-dir", str(folder / "cache"), "user.py"]
    found = subprocess.run([*mypy, *options], cwd=folder, capture_output=True, text=True).stdout
    wanted = ('Revealed type is "float"', 'has incompatible type "int"; expected "str | Pattern"')
    lacking = [text for text in wanted if text not in found.replace("builtins.", "")]
    if lacking or "py.typed" in found:
        sys.exit(f"types are not seen: {lacking} is not in\n{found}")


def check_archive(archive: Path) -> None:
    """Fail unless the source archive holds what a build needs."""
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tracked = subprocess.check_output(["git", "ls-files", "--", *PACKAGES], text=True).splitlines()
    missing = {"pyproject.toml", "LICENSE", "README.md", *tracked} - names
    if missing:
        sys.exit(f"{archive.name} lacks {sorted(missing)}")


def main() -> None:
    """Check the wheel and the archive in the folder given on the command line."""
    folder = Path(sys.argv[1])
    wheel, archive = only(folder, "*.whl"), only(folder, "*.tar.gz")
    check_names(wheel)
    check_archive(archive)
    check_requirements(Path(sys.executable))
    with tempfile.TemporaryDirectory() as made:
        python = installed(wheel, Path(made) / "environment")
        check_it_runs(python, Path(made))
        check_types(python, Path(made))
    print(
        f"{wheel.name} and {archive.name} hold the three packages and nothing else; the wheel runs"
        " and tells its types"
    )


if __name__ == "__main__":
    main()
