"""One script for a few minutes with a GPU: ``python -m benchmarks.gpu --out out/gpu.jsonl``.

In the order of what matters most if time runs out: correctness, the chip's ceilings, some
convolutions against cuDNN, a grid of layer shapes against dense cuBLAS, PyTorch's 2:4 (cuSPARSELt
or CUTLASS), Triton BSR and a short Triton kernel of Shfl-BW, and then the sanitizer. Each result is
written as it comes, one JSON object a line; a step that fails is a line with its error. It has not
been run on a GPU yet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sparsekernels as sk
from benchmarks import machine
from sparsekernels import build
from sparsekernels.ops import cuda, semi
from sparsekernels.ops.cuda import with_words
from sparsekernels.timing import random_mask

Row = dict[str, Any]
Way = tuple[str, Callable[[int], Any]]
# Feed-forward and attention of BERT-base, ViT-L and a large language model's small layer.
SHAPES = ((3072, 768), (768, 3072), (768, 768), (4096, 1024), (1024, 4096), (4096, 4096))
TOKENS = (128, 1024, 8192)
PATTERNS = (
    *(f"vector:{v}@{kept}" for kept in (0.25, 0.5, 0.1) for v in (64, 128, 32)),
    "2:4",
    "64:2:8",
    "128:2:16",
    "tile:128@0.25",
)
# Convolutions of ResNet-50 and of a smaller one, 3 x 3: out, in, height and width.
CONVS = ((256, 256, 14), (128, 128, 28), (512, 512, 7))
BATCH = 32
EACH = 0.15  # seconds for a case
ROTATED = 8  # sets of activations, so that none is in the cache already


class Log:
    """Results written as they come, with the seconds since the start."""

    def __init__(self, path: Path, limit: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._begin, self._limit = path, time.monotonic(), limit

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._limit - (time.monotonic() - self._begin)

    def write(self, step: str, **row: Any) -> None:
        """Write one line."""
        line = {"step": step, "at": round(time.monotonic() - self._begin, 1), **row}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    def attempt(self, step: str, run: Callable[[], Row | None], **row: Any) -> None:
        """Run a step; what goes wrong becomes a line and the next step follows."""
        if self.left <= 0:
            self.write(step, **row, skipped="no time left")
            return
        try:
            self.write(step, **row, **(run() or {}))
        except Exception as error:  # noqa: BLE001  (a bench must go on)
            self.write(step, **row, error=f"{type(error).__name__}: {str(error)[:300]}")


def milliseconds(run: Callable[[int], Any]) -> float:
    """Return the median device time of a call; `run` takes the number of its set of activations."""
    for place in range(3):
        run(place)
    torch.cuda.synchronize()
    times: list[float] = []
    end = time.monotonic() + EACH
    while time.monotonic() < end or len(times) < 10:
        begin, done = (
            # torch gives this constructor no types
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        begin.record()
        run(len(times) % ROTATED)
        done.record()
        done.synchronize()
        times.append(float(begin.elapsed_time(done)))
    return sorted(times)[len(times) // 2]


def correctness() -> Row:
    """Run the GPU tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/sparsekernels/test_gpu.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    return {"code": done.returncode, "tail": done.stdout[-1500:]}


def ceilings() -> Row:
    """Return copy bandwidth and dense bf16 throughput."""
    block = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    copy = milliseconds(lambda _: block.clone())
    big = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product = milliseconds(lambda _: big @ big)
    return {
        "copy_gb_s": 2 * block.numel() / copy / 1e6,
        "dense_tflop_s": 2 * 8192**3 / product / 1e9,
    }


def timed(run: Callable[[int], Any]) -> Callable[[], Row]:
    """Return a step that times a function."""
    return lambda: {"ms": milliseconds(run)}


def grid(log: Log) -> None:
    """Write a line for each shape, number of tokens and way to multiply."""
    for shape in SHAPES:
        for tokens in TOKENS:
            xs = [torch.randn(tokens, shape[1], device="cuda").bfloat16() for _ in range(ROTATED)]
            weight = torch.randn(shape, device="cuda").bfloat16()
            place: Row = {"shape": "x".join(map(str, shape)), "tokens": tokens}
            log.attempt("grid", timed(_dense(xs, weight)), **place, way="dense")
            for pattern in PATTERNS:
                told = {**place, "pattern": pattern}
                for way, run in _safely(log, told, _ways(pattern, weight.cpu(), xs)):
                    log.attempt("grid", timed(run), **told, way=way)


def convolutions(log: Log) -> None:
    """Write a line for each convolution and way: cuDNN's dense one, ours by address."""
    for out, channels, size in CONVS:
        xs = [torch.randn(BATCH, channels, size, size).cuda().bfloat16() for _ in range(2)]
        shape = (out, channels, 3, 3)
        weight = torch.randn(shape).bfloat16()
        place: Row = {"shape": "x".join(map(str, shape)), "input": "x".join(map(str, xs[0].shape))}
        for pattern in ("vector:64@0.25", "2:4"):
            told = {**place, "pattern": pattern}
            for way, run in _safely(log, told, _conv_ways(pattern, weight, xs)):
                log.attempt("convolutions", timed(run), **told, way=way)


def _conv_ways(pattern: str, weight: Tensor, xs: list[Tensor]) -> Iterator[Way]:
    packed = sk.pack(weight, random_mask(pattern, weight.shape, 0), pattern).to("cuda")
    dense, layer = packed.unpack(), sk.SparseConv2d(packed, padding=1).requires_grad_(False)
    yield "dense", lambda i: torch.nn.functional.conv2d(xs[i % 2], dense, padding=1)
    yield "ours", lambda i: layer(xs[i % 2])


def _safely(log: Log, place: Row, ways: Iterator[Way]) -> Iterator[Way]:
    """Yield ways; what goes wrong in preparing one becomes a line and ends them."""
    try:
        yield from ways
    except Exception as error:  # noqa: BLE001  (a bench must go on)
        log.write("grid", **place, error=f"{type(error).__name__}: {str(error)[:300]}")


def _dense(xs: list[Tensor], weight: Tensor) -> Callable[[int], Tensor]:
    return lambda i: torch.nn.functional.linear(xs[i], weight)


def _ways(pattern: str, weight: Tensor, xs: list[Tensor]) -> Iterator[Way]:
    """Yield names and functions of the ways to multiply a pattern's weight."""
    packed = sk.pack(weight, random_mask(pattern, weight.shape, 0), pattern).to("cuda")
    layer = sk.SparseLinear(packed).requires_grad_(False)
    yield "ours", lambda i: layer(xs[i])
    transposed = [x.t().contiguous().t() for x in xs]
    yield "ours, activations transposed already", lambda i: layer(transposed[i])
    if isinstance(packed, sk.NMWeight):
        yield from _torch_two_of_four(packed, xs)
    if isinstance(packed, sk.VectorWiseWeight):
        from benchmarks.triton_shflbw import shflbw

        yield "Triton Shfl-BW", lambda i: shflbw(xs[i], packed)
    if pattern.startswith("vector:64"):
        yield from _triton_bsr(weight, xs)


def _torch_two_of_four(packed: sk.NMWeight, xs: list[Tensor]) -> Iterator[Way]:
    """Yield our own kernel, which `SparseLinear` passes over here, and PyTorch's two."""
    columns, out = [x.t().contiguous() for x in xs], packed.shape[0]
    weight = (packed.values, with_words(packed.operands, packed.values.shape[1]), out)
    yield "ours, mma.sp", lambda i: cuda.product(build.cuda_kernels(), columns[i], *weight)
    for kind, there in (("cutlass", semi.has_cutlass()), ("cusparselt", semi.has_cusparselt())):
        if there:
            yield f"torch 2:4 ({kind})", partial(_by_torch, kind, packed, xs)


def _by_torch(kind: str, packed: sk.NMWeight, xs: list[Tensor], i: int) -> Tensor:
    return semi.linear(kind, xs[i], packed.values, packed.operands, None)


def _triton_bsr(weight: Tensor, xs: list[Tensor]) -> Iterator[Way]:
    from torch.sparse._triton_ops import bsr_dense_addmm

    pattern = "block:64x64@0.25"
    packed = sk.pack(weight, random_mask(pattern, weight.shape, 0), pattern)
    assert isinstance(packed, sk.BlockWeight)
    bsr = packed.to("cuda").to_bsr()
    zero = torch.zeros(weight.shape[0], len(xs[0]), device="cuda", dtype=xs[0].dtype)
    yield "Triton BSR 64x64", lambda i: bsr_dense_addmm(zero, bsr, xs[i].t(), beta=0)


def sanitizer() -> Row:
    """Run one small test under compute-sanitizer's memcheck."""
    tests = ["tests/sparsekernels/test_gpu.py", "-k", "test_gather and 64-128"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *tests]
    command = ["compute-sanitizer", "--tool", "memcheck", *pytest]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    return {"code": done.returncode, "tail": done.stdout[-800:]}


def main() -> None:
    """Run the steps until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/gpu.jsonl"))
    parser.add_argument("--seconds", type=float, default=330.0, help="begin nothing after this")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU: nothing was measured.")
    log = Log(arguments.out, arguments.seconds)
    log.write("machine", **machine.describe(), device=torch.cuda.get_device_name())
    log.attempt("correctness", correctness)
    log.attempt("ceilings", ceilings)
    convolutions(log)
    grid(log)
    log.attempt("sanitizer", sanitizer)


if __name__ == "__main__":
    main()
