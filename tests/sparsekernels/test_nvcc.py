"""nvcc compiles every CUDA kernel: no spills, registers under a ceiling, the right instructions.

What this cannot show is that they are right or fast on a GPU; the shim shows the first but for the
instructions' text, and nothing here the second.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sparsekernels import build

ARCHITECTURES = ("sm_80", "sm_90", "sm_90a")
REGISTERS = 255  # at 128 threads; launch bounds hold larger blocks to what fits
# Both types of every tile, of a matrix and of a convolution.
KERNELS = {"Gather": 22, "Picked": 18, "Reduce": 2}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=ARCHITECTURES)
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """Return the library for one architecture and what ptxas said."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc on PATH: the CUDA kernels were NOT compiled here")
    library = tmp_path_factory.mktemp(request.param) / "kernels.so"
    number = request.param.removeprefix("sm_")
    command = [
        "nvcc", "-O3", "-std=c++20", "-shared", "-Xcompiler", "-fPIC", "-Xptxas", "-v",
        "-gencode", f"arch=compute_{number},code=sm_{number}",
        str(build.SOURCES / "cuda" / "launch.cu"), "-o", str(library),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return library, done.stderr


def test_no_spills_and_few_registers(compiled: tuple[Path, str]) -> None:
    """Every instance is there, none spills, all keep to the ceiling."""
    told = compiled[1]
    names = re.findall(r"Compiling entry function '(\w+)'", told)
    for kernel, count in KERNELS.items():
        assert sum(kernel in name for name in names) == count, names
    spills = [int(n) for n in re.findall(r"(\d+) bytes spill", told)]
    assert len(spills) == 2 * len(names)
    assert not any(spills), told
    assert max(int(n) for n in re.findall(r"Used (\d+) registers", told)) <= REGISTERS


def test_tensor_cores_are_used_as_often_as_tiles_need(compiled: tuple[Path, str]) -> None:
    """HMMA in gather kernels, HMMA.SP in picked ones, as many as a step has; matrices by LDSM."""
    cuobjdump = _cuobjdump()
    if cuobjdump is None:
        pytest.skip(
            "no cuobjdump: instructions were NOT counted (pip install nvidia-cuda-cuobjdump)"
        )
    done = subprocess.run(
        [cuobjdump, "--dump-sass", str(compiled[0])],
        env={**os.environ, "PATH": f"{Path(cuobjdump).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "nvdisasm" in done.stderr:
        pytest.skip("no nvdisasm: instructions were NOT counted (pip install nvidia-cuda-nvdisasm)")
    assert done.returncode == 0, done.stderr[-2000:]
    functions = re.split(r"\n\s*Function : ", done.stdout)[1:]
    assert len(functions) == sum(KERNELS.values())
    for text in functions:
        name = text.split("\n", 1)[0]
        dense = len(re.findall(r"\bHMMA\.16816", text))
        sparse = len(re.findall(r"\bHMMA\.SP\.16832", text))
        tile = re.search(r"(Gather|Picked)ILb[01]ELi(\d+)ELi(\d+)E", name)
        if tile is None:
            assert dense == sparse == 0
            continue
        v, tokens = int(tile[2]), int(tile[3])
        warps = tokens // 16 if tile[1] == "Picked" and v == 128 else tokens // 32
        products = v // 16 * (tokens // 8) // warps * 2  # of a warp in a step of two fragments
        found = dense if tile[1] == "Gather" else sparse
        assert found, name
        assert found % products == 0, (name, found, products)
        assert (sparse if tile[1] == "Gather" else dense) == 0, name
        assert "LDSM.16.MT88.4" in text, name
        assert "LDGSTS" in text, name


def _cuobjdump() -> str | None:
    """Return cuobjdump from PATH or from the wheel that brings it."""
    found = shutil.which("cuobjdump")
    if found is not None:
        return found
    try:
        import nvidia
    except ImportError:
        return None
    places = [place for root in nvidia.__path__ for place in Path(root).glob("**/bin/cuobjdump")]
    return str(places[0]) if places else None
