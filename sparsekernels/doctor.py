"""What can run here, and why the rest cannot."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from typing import Any

import torch

from sparsekernels import build, compiling
from sparsekernels.errors import BuildError
from sparsekernels.ops import semi

#: Runs on a GPU so far: device, date, commit. Filled in by hand from a run of the GPU lane.
GPU_RUNS: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Parameters
    ----------
    what
        Its name.
    state
        ``yes``, ``no`` or a version.
    detail
        Why not, or what follows.
    """

    what: str
    state: str
    detail: str = ""


def examine(*, compile_now: bool = False) -> list[Finding]:
    """Return findings, in the order in which one would fix them.

    Parameters
    ----------
    compile_now
        Build the CPU kernels if they are not built yet.
    """
    return [
        Finding("torch", torch.__version__, f"Python {platform.python_version()}"),
        _tools(),
        _cpu(compile_now),
        _cuda(),
        _two_of_four(),
        _gpu(),
        _verified(),
    ]


def as_rows(findings: list[Finding]) -> list[dict[str, Any]]:
    """Return findings as plain mappings."""
    return [asdict(finding) for finding in findings]


def _tools() -> Finding:
    try:
        compiling.check_tools()
    except BuildError as error:
        return Finding("C++ compiler and ninja", "no", str(error))
    return Finding("C++ compiler and ninja", "yes")


def _cpu(compile_now: bool) -> Finding:
    name, recipe = "CPU kernels", build.cpu_recipe()
    if not build.kernels_wanted():
        return Finding(name, "no", "SPARSEKERNELS_REFERENCE asks for the references")
    if not compile_now and not compiling.is_built(recipe):
        return Finding(name, "not built", f"built on first use into {compiling.cache_root()}")
    try:
        kernels = compiling.load(recipe)
    except BuildError as error:
        return Finding(name, "no", f"{error} The references serve")
    return Finding(
        name, "yes", f"{kernels.isa_name()}; float32 and bfloat16; {compiling.cache_root()}"
    )


def _cuda() -> Finding:
    try:
        build.check_cuda(torch.version.cuda, build.nvcc_version())
    except BuildError as error:
        return Finding("CUDA kernels", "no", str(error))
    return Finding(
        "CUDA kernels", "can be built", f"float16 and bfloat16; CUDA {torch.version.cuda}"
    )


def _two_of_four() -> Finding:
    backends = (("cuSPARSELt", semi.has_cusparselt()), ("CUTLASS", semi.has_cutlass()))
    found = [name for name, there in backends if there]
    detail = "plain 2:4 in whole tiles goes there on a GPU, else to our kernel"
    return Finding("PyTorch's 2:4 products", ", ".join(found) or "no", detail)


def _gpu() -> Finding:
    if not torch.cuda.is_available():
        return Finding("GPU", "no", "torch sees none")
    return Finding("GPU", "yes", torch.cuda.get_device_name())


def _verified() -> Finding:
    name = "CUDA kernels have run on a GPU"
    if not GPU_RUNS:
        return Finding(name, "no", "never; they are verified under a host shim and by compilation")
    return Finding(name, "yes", "; ".join(" ".join(run) for run in GPU_RUNS))
