"""The CUDA kernels' own source, run on the CPU under the shim, against float64.

Every instance, both types, ragged sizes, several orders of warps and lanes. Planted faults must be
found, or the shim would have gone blind. Nothing here has run on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import sparsekernels as sk
from sparsekernels import build, compiling
from sparsekernels.ops import cuda
from sparsekernels.ops.cuda import Tile
from tests.sparsekernels import drawn

KINDS = (torch.float16, torch.bfloat16)
TOLERANCE = {torch.float16: 4e-4, torch.bfloat16: 3e-3}  # rounding of the outputs
CUDA = build.SOURCES / "cuda"


def generator(seed: int = 0) -> torch.Generator:
    """Return a seeded generator."""
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def host() -> Any:
    """Return the kernels under the shim, or skip where there is no compiler."""
    try:
        return compiling.load(build.host_recipe())
    except sk.BuildError as error:
        pytest.skip(f"the shim cannot be built here: {error}")


def check(host: Any, case: drawn.Masked, kind: torch.dtype, count: int, tile: Tile) -> None:
    """Compare a product with bias, alpha and beta with the float64 one."""
    packed = case.pack().to(kind)
    operands = packed.operands
    assert cuda.refusal(packed.values, operands) == ""
    out, columns = packed.shape
    rng = generator(count)
    xt = torch.randn(columns, count, generator=rng).to(kind)
    c = torch.randn(out, count, generator=rng).to(kind)
    bias = torch.randn(out, generator=rng)
    y = cuda.product(
        host, xt, packed.values, operands, out, bias, c=c, alpha=0.5, beta=2.0, tile=tile
    )
    exact = 0.5 * packed.unpack().double() @ xt.double() + 2.0 * c.double() + bias[:, None]
    assert y.shape == exact.shape
    error = float((y.double() - exact).norm() / exact.norm().clamp(min=1e-9))
    assert error < TOLERANCE[kind], error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [128, 256])
@pytest.mark.parametrize("v", [8, 16, 24, 32, 64, 128])
def test_gather(host: Any, v: int, tokens: int, kind: torch.dtype) -> None:
    """Shfl-BW of every height: odd numbers of columns and tokens, rows that are no whole groups."""
    if tokens == 256 and v <= 16:
        pytest.skip("there is no such instance: groups of 16 rows take tiles of 128 tokens")
    for seed, (rows, cols, kept, count) in enumerate(
        [(2 * v, 77, 50, 72), (v + 3, 200, 130, 261)], 1
    ):
        case = drawn.vector(rows, cols, v, kept, generator(seed))
        check(host, case, kind, count, Tile(tokens, 1, seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [1, 2, 5])
def test_parts_of_the_columns_add_up(host: Any, splits: int, kind: torch.dtype) -> None:
    """Split along the columns, also into more parts than there are steps."""
    check(host, drawn.vector(64, 150, 32, 100, generator(1)), kind, 40, Tile(128, splits, 3))
    check(host, drawn.nm(64, 40, 2, 4, generator(2), full=True), kind, 40, Tile(128, splits, 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("single", [0.0, 0.03])
def test_tiles_and_overlay(host: Any, single: float, kind: torch.dtype) -> None:
    """Tiles of different heights and widths, dropped rows, and single entries on top."""
    for v, seed in ((16, 1), (64, 2), (128, 3)):
        check(host, drawn.tile(150, 90, v, single, generator(seed)), kind, 56, Tile(128, 2, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_blocks(host: Any, kind: torch.dtype) -> None:
    """Dense blocks are groups whose columns come in runs."""
    check(host, drawn.block(96, 128, 16, 16, generator(1)), kind, 33, Tile(0, 0, 5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", [Tile(128, 1, 1), Tile(128, 3, 2), Tile(256, 1, 3)])
def test_two_of_four(host: Any, tile: Tile, kind: torch.dtype) -> None:
    """2:4 with and without a column order, of heights that are no whole tiles."""
    for seed, (rows, groups, count) in enumerate([(16, 8, 8), (64, 37, 130), (130, 16, 72)], 1):
        if tile.tokens == 256 and rows < 64:
            continue
        case = drawn.nm(rows, groups, 2, 4, generator(seed), full=bool(seed % 2))
        wide = tile if rows < 128 else tile._replace(tokens=128)
        check(host, case, kind, count, wide)
        stored = case.mask[:, case.cols]
        check(host, drawn.Masked(case.weight, stored, "2:4"), kind, count, wide)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("v", [16, 32, 64, 128])
def test_live_columns(host: Any, v: int, kind: torch.dtype) -> None:
    """V:N:M and HiNM of every height: lists of columns in front of mma.sp."""
    check(host, drawn.vnm(2 * v - 3, 9, v, 8, generator(1)), kind, 72, Tile(128, 1, 1))
    check(host, drawn.vnm(v, 5, v, 16, generator(2)), kind, 16, Tile(128, 2, 2))
    check(host, drawn.hinm(v + 1, 30, v, 17, generator(3)), kind, 130, Tile(128, 1, 3))


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_warps_does_not_matter(host: Any, seed: int) -> None:
    """Any interleaving gives the same bits (seed 0: in order)."""
    packed = drawn.vector(128, 200, 64, 120, generator(1)).pack().to(torch.float16)
    xt = torch.randn(200, 72, generator=generator(2)).half()
    args = (host, xt, packed.values, packed.operands, 128)
    assert torch.equal(
        cuda.product(*args, tile=Tile(128, 1, seed)), cuda.product(*args, tile=Tile(128, 1, 99))
    )


def test_layers_compute_through_these_kernels(host: Any) -> None:
    """What a layer on a GPU would call: any leading axes, the layout of any operator; windows."""
    packed = drawn.vector(32, 24, 8, 6, generator(1)).pack().to(torch.float16)
    x = torch.randn(3, 5, 24, generator=generator(2)).half()
    y = cuda.linear(host, x, packed.values, packed.operands, 32, None)
    assert y.is_contiguous()
    exact = torch.nn.functional.linear(x.double(), packed.unpack().double())
    torch.testing.assert_close(y.double(), exact, rtol=2e-3, atol=2e-3)
    weight = torch.randn(16, 8, 3, 3, generator=generator(3)).half()
    mask = (torch.rand(2, 8, 3, 3, generator=generator(4)) < 0.5).repeat_interleave(8, 0)
    conv = sk.pack(weight, mask, "vector:8@1")
    image = torch.randn(2, 8, 6, 7, generator=generator(5)).half()
    window = [3, 3, 2, 1, 1, 0, 1, 2]
    y = cuda.conv2d(host, image, conv.values, conv.operands, 16, window, None)
    exact = torch.nn.functional.conv2d(
        image.double(), (weight * mask).double(), None, (2, 1), (1, 0), (1, 2)
    )
    torch.testing.assert_close(y.double(), exact, rtol=3e-3, atol=3e-3)


def test_operands_on_odd_addresses_are_moved(host: Any) -> None:
    """Activations and values that begin anywhere: 16-byte copies get what they need."""
    packed = drawn.vector(32, 24, 8, 6, generator(1)).pack().to(torch.float16)
    plain = torch.randn(24, 16, generator=generator(2)).half()
    odd = torch.cat([torch.zeros(1).half(), plain.reshape(-1)])[1:].reshape(24, 16)
    values = torch.cat([torch.zeros(1).half(), packed.values.reshape(-1)])[1:]
    assert odd.data_ptr() % 16
    assert values.data_ptr() % 16
    y = cuda.product(host, odd, values, packed.operands, 32)
    assert torch.equal(y, cuda.product(host, plain, packed.values, packed.operands, 32))


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_passes_through(host: Any, kind: torch.dtype) -> None:
    """The identity gives back all finite 16-bit numbers, zeros and subnormals included."""
    numbers = torch.arange(65536).short().view(kind).reshape(8, 8192)
    numbers = torch.where(numbers.isfinite(), numbers, torch.zeros_like(numbers))
    packed = sk.pack(torch.eye(8), torch.ones(8, 8).bool(), "vector:8@1").to(kind)
    y = cuda.product(host, numbers, packed.values, packed.operands, 8, tile=Tile(128, 1, 0))
    assert torch.equal(y, numbers)


def test_no_tokens_and_no_groups(host: Any) -> None:
    """Nothing in, nothing out; rows without any column give the bias."""
    packed = sk.pack(torch.ones(16, 8), torch.zeros(16, 8).bool(), "tile:8@0.25").to(torch.float16)
    args = (packed.values, packed.operands, 16)
    assert cuda.product(host, torch.ones(8, 0).half(), *args).shape == (16, 0)
    y = cuda.product(host, torch.ones(8, 3).half(), *args, torch.arange(16.0))
    assert torch.equal(y, torch.arange(16.0)[:, None].expand(16, 3).half())


@pytest.mark.parametrize(
    ("case", "kind", "told"),
    [
        (drawn.vector(16, 8, 4, 3, generator()), torch.float16, "groups of 8 to 128 rows"),
        (drawn.vector(256, 8, 256, 3, generator()), torch.float16, "groups of 8 to 128 rows"),
        (drawn.nm(16, 3, 3, 5, generator(), full=True), torch.float16, "2 of 4"),
        (drawn.vnm(24, 2, 8, 8, generator()), torch.float16, "that 16, 32"),
        (drawn.vector(16, 8, 8, 3, generator()), torch.float32, "float16 and bfloat16"),
    ],
)
def test_what_the_kernels_do_not_take_is_told(
    case: drawn.Masked, kind: torch.dtype, told: str
) -> None:
    """The reason says which sizes and types they take."""
    packed = case.pack().to(kind)
    assert told in cuda.refusal(packed.values, packed.operands)


# ---- faults: each is a change of the source that must be found

FAULTS = {
    "a barrier is missing": ("gather.cuh", "      sync_threads();\n", ""),
    "a barrier is missing in mma.sp": ("picked.cuh", "      sync_threads();\n", ""),
    "a barrier half of the block skips": (
        "gather.cuh",
        "      sync_threads();\n",
        "      if (thread_index() < THREADS / 2) sync_threads();\n",
    ),
    "a copy is waited for one step too late": (
        "gather.cuh", "copy_wait<STAGES - 2>", "copy_wait<STAGES - 1>",
    ),
    "the wrong stage is read": (
        "picked.cuh", "a + s % STAGES * A, b + s % STAGES * B", "a + s % STAGES * A, b",
    ),
    "matrices are read from the wrong place": ("gather.cuh", "(lane >> 3 & 1)", "(lane >> 4)"),
    "fragments are swapped": ("picked.cuh", "{low[0], low[1], high[0]", "{low[1], low[0], high[0]"),
    "metadata of the other lane": ("picked.cuh", "lane / 4 * 2 + lane % 2", "lane / 4 * 2"),
    "rows stay where they are stored": ("gather.cuh", "g.rows[place] : -1", "place : -1"),
    "a swizzle on one side": (
        "gather.cuh", "copy16(b + swizzled<B_CHUNKS>(k, q)", "copy16(b + (c * 8)",
    ),
}  # fmt: skip


class Result(ctypes.Structure):
    """Where a product goes."""

    _fields_ = [
        ("y", ctypes.c_void_p), ("c", ctypes.c_void_p), ("bias", ctypes.c_void_p),
        ("part", ctypes.c_void_p), ("rows", ctypes.c_int64), ("ld", ctypes.c_int64),
        ("alpha", ctypes.c_float), ("beta", ctypes.c_float),
    ]  # fmt: skip


class Window(ctypes.Structure):
    """A convolution's input and windows; all zeros: a matrix. Dividers are made by the callee."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("channels", "height", "width", "batch")),
        ("out_width", ctypes.c_int32), ("kernel_width", ctypes.c_int32),
        *((name, ctypes.c_int32 * 2) for name in ("stride", "padding", "dilation")),
        ("dividers", ctypes.c_uint32 * 12),
    ]  # fmt: skip


_POINTERS = ("values", "colptr", "rowptr", "valptr", "cols", "rows", "xt")


class Gather(ctypes.Structure):
    """Arguments of the gathered family."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("ldx", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("overlay_ptr", "overlay_cols", "overlay")),
        ("result", Result), ("window", Window),
    ]  # fmt: skip


class _Picked(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "words", "cols", "rows")),
        *((name, ctypes.c_int64) for name in ("height", "length", "share")),
        ("xt", ctypes.c_void_p), ("ldx", ctypes.c_int64), ("result", Result),
        ("window", Window),
    ]  # fmt: skip


def compiled(folder: Path, *flags: str) -> Path:
    """Compile the plain C entry points of a folder of sources for the shim."""
    library = folder / "faulty.so"
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-x", "c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-DSK_HOST",
               "-DSK_FEW", "-Wno-unknown-pragmas", *flags, str(folder / "cuda" / "launch.cu"),
               "-o", str(library)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return library


def product_is_right(library: Any, seed: int) -> bool:
    """Run one product of each body and compare; False where the shim or the result objects."""
    library.sk_message.restype = ctypes.c_char_p
    case = drawn.vector(128, 96, 64, 75, generator(1)).pack().to(torch.float16)
    w, xt = case.operands, torch.randn(96, 136, generator=generator(2)).half()
    y = torch.full((128, 136), float("nan"), dtype=torch.float16)
    valptr = torch.nn.functional.pad((w.colptr.diff() * 64).cumsum(0), (1, 0))
    result = Result(y.data_ptr(), None, None, None, 128, 136, 1.0, 0.0)
    pointers = [t.data_ptr() for t in (case.values, w.colptr, w.rowptr, valptr, w.cols, w.rows, xt)]
    gather = Gather(*pointers, 136, None, None, None, result)
    code = library.sk_gather(0, 64, 128, ctypes.byref(gather), 2, 1, None, seed)
    if code or not close(y, case.unpack(), xt):
        return False
    case = drawn.vnm(64, 48, 64, 8, generator(3)).pack().to(torch.float16)
    p, xt = cuda.with_words(case.operands, 96), torch.randn(384, 136, generator=generator(4)).half()
    y = torch.full((64, 136), float("nan"), dtype=torch.float16)
    result = Result(y.data_ptr(), None, None, None, 64, 136, 1.0, 0.0)
    pointers = [t.data_ptr() for t in (case.values, p.words, p.cols, p.rows)]
    picked = _Picked(*pointers, 64, 192, 64, xt.data_ptr(), 136, result)
    code = library.sk_picked(0, 64, 128, ctypes.byref(picked), 1, None, seed)
    return code == 0 and close(y, case.unpack(), xt)


def close(y: torch.Tensor, weight: torch.Tensor, xt: torch.Tensor) -> bool:
    """Whether a product is the exact one within the rounding of its outputs."""
    exact = weight.double() @ xt.double()
    return float((y.double() - exact).norm() / exact.norm()) < 4e-4


def sources(folder: Path) -> Path:
    """Copy the kernels' sources, to be changed."""
    for part in ("cuda", "shim"):
        shutil.copytree(build.SOURCES / part, folder / part)
    return folder


def plant(folder: Path, name: str, good: str, bad: str) -> None:
    """Change a copy of a source."""
    file = folder / "cuda" / name
    text = file.read_text(encoding="utf-8")
    assert good in text
    file.write_text(text.replace(good, bad), encoding="utf-8")


@pytest.mark.parametrize("fault", ["none", *FAULTS])
def test_planted_faults_are_found(host: Any, fault: str, tmp_path: Path) -> None:
    """Each fault shows under some of a few seeds; the source as it is shows none."""
    del host
    folder = sources(tmp_path)
    if fault != "none":
        plant(folder, *FAULTS[fault])
    library = ctypes.CDLL(str(compiled(folder)))
    right = [product_is_right(library, seed) for seed in (1, 2, 3)]
    assert all(right) if fault == "none" else not all(right), fault


def test_addresses_are_checked(host: Any, tmp_path: Path) -> None:
    """AddressSanitizer passes the source as it is, and finds a bound that is left out."""
    del host
    runtime = subprocess.run(
        [os.environ.get("CXX", "c++"), "-print-file-name=libasan.so"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if not Path(runtime).is_file():
        pytest.skip("the compiler has no AddressSanitizer")
    for bad in (False, True):
        folder = sources(tmp_path / str(bad))
        if bad:
            plant(folder, "source.cuh", "id >= 0 && inside", "id >= 0")
        library = compiled(folder, "-fsanitize=address", "-g")
        script = (
            "import ctypes, sys; sys.path.insert(0, sys.argv[1])\n"
            "from tests.sparsekernels import test_shim as t\n"
            "sys.exit(0 if t.product_is_right(ctypes.CDLL(sys.argv[2]), 1) else 3)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parents[2]), str(library)],
            env={**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == bad, done.stderr[-2000:]
        assert ("AddressSanitizer" in done.stderr) == bad, done.stderr[-2000:]
