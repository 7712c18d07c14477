"""Compiling on first use: once for all processes, and told where it cannot be done."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import sparsekernels as sk
from sparsekernels import build, compiling

SOURCE = """
#include <torch/csrc/stable/library.h>
static int64_t answer() { return 42; }
STABLE_TORCH_LIBRARY(%s, m) { m.def("answer() -> int"); }
STABLE_TORCH_LIBRARY_IMPL(%s, CompositeExplicitAutograd, m) {
  m.impl("answer", TORCH_BOX(&answer));
}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache folder."""
    monkeypatch.setenv("SPARSEKERNELS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def recipe(folder: Path, name: str, text: str = SOURCE) -> compiling.Recipe:
    """Return a library of one small file."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.cpp"
    file.write_text(text.replace("%s", name), encoding="utf-8")
    return compiling.Recipe(name, (file,), folder, ("-O0", "-std=c++20"))


def needs_compiler() -> None:
    """Skip where nothing can be compiled."""
    try:
        compiling.check_tools()
    except sk.BuildError as error:
        pytest.skip(str(error))


def test_built_once_then_taken_from_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """The second time needs no compiler; a changed source is another library."""
    needs_compiler()
    wanted = recipe(tmp_path / "src", "sk_test_once")
    assert not compiling.is_built(wanted)
    assert compiling.load(wanted).answer() == 42
    assert compiling.is_built(wanted)
    monkeypatch.setattr(compiling, "check_tools", lambda: pytest.fail("compiled again"))
    assert compiling.load(wanted).answer() == 42
    changed = recipe(tmp_path / "src", "sk_test_once", SOURCE.replace("42", "43"))
    assert not compiling.is_built(changed)
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("damage", ["half built", "cut library", "no stamp"])
def test_a_damaged_cache_is_built_anew(cache: Path, tmp_path: Path, damage: str) -> None:
    """What a killed build or a full disk leaves behind, torch's stale lock included."""
    needs_compiler()
    name = f"sk_test_{damage.replace(' ', '_')}"
    wanted = recipe(tmp_path / "src", name)
    folder = cache / f"{name}-{wanted.digest()}"
    folder.mkdir(parents=True)
    (folder / "lock").touch()  # torch would wait for it for ever
    (folder / f"{name}.so").write_bytes(b"\x7fELF rubbish")
    if damage == "half built":
        (folder / "build.ninja").write_text("rule broken", encoding="utf-8")
    if damage == "cut library":
        (folder / "ready").write_text("0" * 64, encoding="utf-8")
    assert compiling.load(wanted).answer() == 42
    assert compiling.is_built(wanted)


def test_waits_for_another_process_and_gives_up(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build under way elsewhere is waited for, with an end, and its lock is named."""
    wanted = recipe(tmp_path / "src", "sk_test_locked")
    monkeypatch.setattr(compiling, "PATIENCE", 0.3)
    cache.mkdir()
    lock = cache / f"{wanted.name}-{wanted.digest()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(sk.BuildError, match=r"another process has been building.*\.lock"):
            compiling.load(wanted)


def test_two_processes_build_one_library(cache: Path, tmp_path: Path) -> None:
    """Started together, both get it, and it was compiled once."""
    needs_compiler()
    recipe(tmp_path / "src", "sk_test_both")
    script = (
        "import sys; from pathlib import Path; from sparsekernels import compiling\n"
        "folder = Path(sys.argv[1])\n"
        "files = (folder / 'sk_test_both.cpp',)\n"
        "r = compiling.Recipe('sk_test_both', files, folder, ('-std=c++20',))\n"
        "assert compiling.load(r).answer() == 42\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "src")]
    both = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(2)]
    assert [process.wait(timeout=280) for process in both] == [0, 0]
    assert len(list(cache.glob("*/sk_test_both.so"))) == 1


def test_a_compile_error_is_told(cache: Path, tmp_path: Path) -> None:
    """The compiler's own words come out, not a page of commands."""
    needs_compiler()
    del cache
    wanted = recipe(tmp_path / "src", "sk_test_broken", "#error these words\n")
    with pytest.raises(sk.BuildError, match=r"sk_test_broken does not compile: .*these words"):
        compiling.load(wanted)


def test_no_compiler(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the compiler and CXX; products come from the reference, with a warning."""
    del cache
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(sk.BuildError, match="'no-such-compiler' is not on PATH; install g"):
        compiling.load(recipe(tmp_path / "src", "sk_test_none"))
    build.cpu_kernels.cache_clear()
    try:
        with pytest.warns(sk.ReferenceUsed, match="no C\\+\\+ compiler"):
            assert build.cpu_kernels() is None
        packed = sk.pack(torch.eye(8), None, "1:8")
        with pytest.warns(sk.ReferenceUsed, match="not built here"):
            y = sk.linear(torch.ones(2, 8), packed)
        assert torch.equal(y, torch.ones(2, 8))
    finally:
        build.cpu_kernels.cache_clear()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder and the variable that changes it are named."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPARSEKERNELS_CACHE", str(tmp_path / "file"))
    with pytest.raises(sk.BuildError, match="set SPARSEKERNELS_CACHE"):
        compiling.load(recipe(tmp_path / "src", "sk_test_nowhere"))


def test_ninja_off_path(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when an environment's python is called by its full path: its own ninja is found."""
    needs_compiler()
    del cache
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("c++", "sh", "env", "as", "ld", "cc1plus", "collect2", "uname", "ldconfig"):
        found = next(
            (p for p in map(Path, (f"/usr/bin/{name}", f"/sbin/{name}")) if p.exists()), None
        )
        if found is not None:
            (tools / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tools))
    if compiling._ninja() is None:
        pytest.skip("this environment has no ninja of its own")
    assert compiling.load(recipe(tmp_path / "src", "sk_test_path")).answer() == 42
    assert os.environ["PATH"] == str(tools)
    monkeypatch.setattr(compiling.sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(sk.BuildError, match="pip install ninja"):
        compiling.check_tools()


@pytest.mark.parametrize(
    ("cuda", "nvcc", "told"),
    [
        (None, "13.0", "was built without CUDA"),
        ("13.0", None, "no nvcc on PATH; torch needs that of CUDA 13.0"),
        ("13.0", "11.8", "nvcc is of CUDA 11.8, torch was built with 13.0"),
    ],
)
def test_a_toolkit_that_does_not_fit(cuda: str | None, nvcc: str | None, told: str) -> None:
    """What was found and what is needed, both by number."""
    with pytest.raises(sk.BuildError, match=told):
        build.check_cuda(cuda, nvcc)
    build.check_cuda("13.0", "13.2")


def test_cuda_kernels_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU and no list of architectures: one clear error on CPU torch, else a default list."""
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    if torch.version.cuda is None:
        with pytest.raises(sk.BuildError, match="built without CUDA"):
            build.load_cuda()
    seen = {}
    monkeypatch.setattr(build, "check_cuda", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(build, "load", lambda _: seen.update(os.environ))
    build.load_cuda()
    assert seen["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0;9.0a"
    assert "TORCH_CUDA_ARCH_LIST" not in os.environ


def test_import_and_use_with_a_bare_path(shared_folder: Path) -> None:
    """The reported case of ninja off PATH: import works, the CPU path computes."""
    sys.path.insert(0, str(shared_folder / "cases"))
    try:
        import models
    finally:
        sys.path.pop(0)
    told = next(case for case in models.all_cases() if case.id == "O32").data["env"]
    script = (
        "import torch, sparsekernels as sk\n"
        "p = sk.pack(torch.eye(8), None, 'vector:8@1')\n"
        "assert torch.equal(sk.linear(torch.ones(3, 8), p), torch.ones(3, 8))\n"
    )
    environment = {**os.environ, **told}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(__file__).parents[2], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_tile_sizes_of_the_reported_case(shared_folder: Path) -> None:
    """64:2:8 on 192 x 192 with 3168 tokens computes; 200 rows are padded, and that is told."""
    sys.path.insert(0, str(shared_folder / "cases"))
    try:
        import models
    finally:
        sys.path.pop(0)
    data = next(case for case in models.all_cases() if case.id == "O19").data
    from permsearch.patterns import parse_pattern

    mask = torch.from_numpy(parse_pattern("64:2:8").keep(data["w"].abs().numpy()))
    packed = sk.pack(data["w"], mask, "64:2:8")
    y = sk.linear(data["x"].t(), packed).t()
    exact = (data["w"] * mask).double() @ data["x"].double()
    assert float((y.double() - exact).norm() / exact.norm()) < 1e-3
    grown = torch.nn.functional.pad(data["odd_rows"], (0, 0, 0, 56))
    mask = torch.from_numpy(parse_pattern("64:2:8").keep(grown.abs().numpy()))[:200]
    odd = sk.pack(data["odd_rows"], mask, "64:2:8")
    assert odd.padded == (56, 0)
    assert "padded by 56 rows" in repr(odd)
    assert torch.equal(odd.unpack(), data["odd_rows"] * mask)


def test_dense_data_is_not_taken_for_two_of_four(shared_folder: Path) -> None:
    """The reported case: a dense matrix is refused with the number of groups over the limit."""
    sys.path.insert(0, str(shared_folder / "cases"))
    try:
        import models
    finally:
        sys.path.pop(0)
    data = next(case for case in models.all_cases() if case.id == "O25").data
    with pytest.raises(sk.PackError, match=f"{data['violations']} groups of 4"):
        sk.pack(data["dense"], None, "2:4")
    assert torch.equal(sk.pack(data["sparse"], None, "2:4").unpack(), data["sparse"])
