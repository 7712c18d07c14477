"""Build a library once for all processes, then take it from the cache; say what is missing."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sparsekernels.errors import BuildError

PATIENCE = 600.0  # seconds that another process may take


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a library is made of.

    Parameters
    ----------
    name
        Of the library and of the operators' namespace.
    sources
        Files to compile.
    headers
        Folder whose files they include: a change of any of them is another library.
    flags, link, cuda
        Options of the compiler, of the linker, and of nvcc where it takes part.
    """

    name: str
    sources: tuple[Path, ...]
    headers: Path
    flags: tuple[str, ...]
    link: tuple[str, ...] = ()
    cuda: tuple[str, ...] | None = None

    def digest(self) -> str:
        """Return what changes with the sources, the options, torch, Python and the processor."""
        found = hashlib.sha256()
        parts = (*self.flags, *self.link, *(self.cuda or ()), torch.__version__, platform.machine())
        found.update("\0".join((*parts, sysconfig.get_platform(), _compiler())).encode())
        for file in sorted(self.headers.rglob("*.[chu]*")):
            found.update(file.name.encode() + file.read_bytes())
        return found.hexdigest()[:16]


def cache_root() -> Path:
    """Return the folder that holds compiled kernels.

    `SPARSEKERNELS_CACHE` overrules, then `TORCH_EXTENSIONS_DIR`; else the user's cache folder, or
    where that cannot be written one in the system's temporary folder.
    """
    for name in ("SPARSEKERNELS_CACHE", "TORCH_EXTENSIONS_DIR"):
        if os.environ.get(name):
            return Path(os.environ[name])
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if os.access(base if base.is_dir() else base.parent, os.W_OK):
        return base / "sparsekernels"
    return Path(tempfile.gettempdir()) / f"sparsekernels-{os.getuid()}"


def load(recipe: Recipe) -> Any:
    """Return the operators' namespace of a library, built or taken from the cache.

    Raises
    ------
    BuildError
        When it cannot be built or loaded, with what is missing.
    """
    namespace = getattr(torch.ops, recipe.name)
    folder = _folder(recipe)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f"{folder.name}.lock")):
            if not _load_ready(recipe, folder):
                _build(recipe, folder)
                _mark_ready(recipe, folder)
    except OSError as error:
        raise BuildError(
            f"the folder for compiled kernels {folder} cannot be used ({error}); set "
            "SPARSEKERNELS_CACHE to one that can be written."
        ) from error
    return namespace


def is_built(recipe: Recipe) -> bool:
    """Return whether a finished library lies in the cache; nothing is loaded or written."""
    folder = _folder(recipe)
    try:
        return (folder / "ready").read_text() == _sum(_library(recipe, folder))
    except OSError:
        return False


def _folder(recipe: Recipe) -> Path:
    return cache_root() / f"{recipe.name}-{recipe.digest()}"


def _library(recipe: Recipe, folder: Path) -> Path:
    return folder / f"{recipe.name}.so"


def _load_ready(recipe: Recipe, folder: Path) -> bool:
    """Load a finished library; leave an empty folder where one was left half built or damaged."""
    library, stamp = _library(recipe, folder), folder / "ready"
    try:
        if stamp.read_text() == _sum(library):
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
            return True
    except (OSError, RuntimeError):
        pass  # missing, cut off, or for another system: built anew
    shutil.rmtree(folder)
    folder.mkdir()
    return False


def _mark_ready(recipe: Recipe, folder: Path) -> None:
    (folder / "ready").write_text(_sum(_library(recipe, folder)))


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _build(recipe: Recipe, folder: Path) -> None:
    check_tools()
    with _path_with_ninja():
        from torch.utils import cpp_extension

        try:
            cpp_extension.load(
                recipe.name,
                [str(source) for source in recipe.sources],
                extra_cflags=list(recipe.flags),
                extra_cuda_cflags=list(recipe.cuda or ()),
                extra_ldflags=list(recipe.link),
                build_directory=str(folder),
                with_cuda=recipe.cuda is not None,
                is_python_module=False,
            )
        except (RuntimeError, OSError, IndexError) as error:
            raise BuildError(
                f"{recipe.name} does not compile: {_first_error(str(error))}"
            ) from error


def _first_error(text: str) -> str:
    """Return the line of a compiler's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\berror:", line)]
    return (telling or lines or ["no message"])[0]


def check_tools() -> None:
    """Raise BuildError unless a C++ compiler and ninja are found."""
    compiler = _compiler()
    if shutil.which(compiler) is None:
        raise BuildError(
            f"no C++ compiler: {compiler!r} is not on PATH; install g++ or name another in CXX."
        )
    if _ninja() is None:
        raise BuildError("ninja is neither on PATH nor in this environment; pip install ninja.")


def _compiler() -> str:
    return os.environ.get("CXX") or "c++"


def _ninja() -> Path | None:
    """Return ninja's folder: that of this environment, which PATH may lack, or one on PATH."""
    for folder in (sysconfig.get_path("scripts"), *os.environ.get("PATH", "").split(os.pathsep)):
        if folder and os.access(Path(folder) / "ninja", os.X_OK):
            return Path(folder)
    return None


@contextmanager
def _path_with_ninja() -> Iterator[None]:
    """Put ninja's folder on PATH for a while: torch calls it by name."""
    before = os.environ.get("PATH", "")
    folder = _ninja()
    if folder is not None and str(folder) not in before.split(os.pathsep):
        os.environ["PATH"] = f"{before}{os.pathsep}{folder}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases when its holder dies.

    torch's own lock file would stay behind a killed build and block the next one for ever; it is
    inside the folder and goes with it.
    """
    import fcntl

    give_up = time.monotonic() + PATIENCE
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > give_up:
                    raise BuildError(
                        f"another process has been building for {PATIENCE:.0f} s and holds {path}."
                    ) from error
                time.sleep(0.1)
        yield


def clear(
    names: Sequence[str] = ("sparsekernels_cpu", "sparsekernels_cuda", "sparsekernels_host"),
) -> list[Path]:
    """Delete compiled kernels from the cache; return the folders that went."""
    found = [path for name in names for path in cache_root().glob(f"{name}-*") if path.is_dir()]
    for path in found:
        shutil.rmtree(path)
    return found
