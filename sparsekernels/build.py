"""The libraries of kernels, compiled on first use; nothing here runs on import."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import torch

from sparsekernels.compiling import Recipe, load
from sparsekernels.errors import BuildError, ReferenceUsed

SOURCES = Path(__file__).parent / "csrc"
DEFAULT_ARCHITECTURES = "8.0;9.0;9.0a"
CPU_FLAGS = (
    "-O3",
    "-std=c++20",
    "-fopenmp",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-Wno-unknown-pragmas",
)


def cpu_recipe() -> Recipe:
    """Return what the CPU kernels are made of."""
    folder = SOURCES / "cpu"
    return Recipe(
        "sparsekernels_cpu",
        tuple(sorted(folder.glob("*.cpp"))),
        folder,
        CPU_FLAGS,
        ("-fopenmp",),
    )


def host_recipe() -> Recipe:
    """Return the CUDA kernels' source under the shim, for tests; far too slow for anything else."""
    folder = SOURCES / "cuda"
    return Recipe(
        "sparsekernels_host",
        (folder / "bind.cpp", folder / "launch_host.cpp"),
        SOURCES,
        ("-O1", "-std=c++20", "-DSK_HOST", "-Wno-unknown-pragmas"),
    )


def cuda_recipe() -> Recipe:
    """Return what the CUDA kernels are made of."""
    folder = SOURCES / "cuda"
    return Recipe(
        "sparsekernels_cuda",
        (folder / "bind.cpp", folder / "launch.cu"),
        folder,
        ("-O3", "-std=c++20", "-DUSE_CUDA"),
        cuda=("-O3", "-std=c++20"),
    )


def kernels_wanted() -> bool:
    """Return whether kernels may be used: `SPARSEKERNELS_REFERENCE=1` asks for the references."""
    return os.environ.get("SPARSEKERNELS_REFERENCE", "0") in ("", "0")


@functools.cache
def cpu_kernels() -> Any | None:
    """Return the CPU operators' namespace, built if need be; None, after one warning, where not."""
    if not kernels_wanted():
        return None
    try:
        return load(cpu_recipe())
    except BuildError as error:
        warnings.warn(f"CPU kernels are not used: {error}", ReferenceUsed, stacklevel=4)
        return None


@functools.cache
def cuda_kernels() -> Any | None:
    """Return the CUDA operators' namespace; None, after one warning, where they are not built."""
    if not kernels_wanted():
        return None
    try:
        return load_cuda()
    except BuildError as error:
        warnings.warn(f"CUDA kernels are not used: {error}", ReferenceUsed, stacklevel=4)
        return None


def load_cuda() -> Any:
    """Return the CUDA operators' namespace.

    Without `TORCH_CUDA_ARCH_LIST` and without a GPU, sm_80, sm_90 and sm_90a are built.

    Raises
    ------
    BuildError
        When they cannot be built, with what was found and what is needed.
    """
    check_cuda(torch.version.cuda, nvcc_version())
    before = os.environ.get("TORCH_CUDA_ARCH_LIST")
    try:
        if not before and not torch.cuda.is_available():
            os.environ["TORCH_CUDA_ARCH_LIST"] = DEFAULT_ARCHITECTURES
        return load(cuda_recipe())
    finally:
        os.environ.pop("TORCH_CUDA_ARCH_LIST", None)
        if before is not None:
            os.environ["TORCH_CUDA_ARCH_LIST"] = before


def check_cuda(torch_cuda: str | None, nvcc: str | None) -> None:
    """Raise BuildError unless torch has CUDA and a compiler of the same major version is there."""
    if torch_cuda is None:
        raise BuildError(
            f"torch {torch.__version__} was built without CUDA; install a CUDA build of torch "
            "(the CPU kernels and the references do not need one)."
        )
    if nvcc is None:
        raise BuildError(f"no nvcc on PATH; torch needs that of CUDA {torch_cuda}.")
    if nvcc.partition(".")[0] != torch_cuda.partition(".")[0]:
        raise BuildError(
            f"nvcc is of CUDA {nvcc}, torch was built with {torch_cuda}; put an nvcc of CUDA "
            f"{torch_cuda.partition('.')[0]} first on PATH (and set CUDA_HOME to its folder)."
        )


def nvcc_version() -> str | None:
    """Return the version of the nvcc on PATH, such as ``13.0``; None where there is none."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    told = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release ([0-9]+\.[0-9]+)", told)
    return found[1] if found else None
