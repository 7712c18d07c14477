"""How long dense and packed layers take, measured so that other work disturbs little."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sparsekernels.errors import KernelError
from sparsekernels.formats.choose import pack
from sparsekernels.modules import SparseLinear
from sparsekernels.ops.dispatch import choose

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def interleaved(runs: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Return the median duration of each function in milliseconds, taking turns.

    Turns expose all of them to the same disturbances. With one thread the calling thread's CPU
    time counts, which other processes disturb little; with more it is wall time. On a GPU events
    count.
    """
    clock = _clock()
    for run in runs:
        run()
        run()
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for run, found in zip(runs, times, strict=True):
            begin = clock()
            run()
            found.append(clock() - begin)
    return [1e3 * statistics.median(found) for found in times]


def _clock() -> Callable[[], float]:
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def _on_gpu(runs: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Return medians of device time, one event pair for each call."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
        run()
    torch.cuda.synchronize()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for run, found in zip(runs, times, strict=True):
            begin, done = (
                torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
                for _ in range(2)
            )
            begin.record()
            run()
            done.record()
            done.synchronize()
            found.append(begin.elapsed_time(done))
    return [statistics.median(found) for found in times]


def milliseconds(runs: Sequence[Callable[[], Any]], seconds: float, device: str) -> list[float]:
    """Return `interleaved` medians on the CPU or on a GPU."""
    return _on_gpu(runs, seconds) if device == "cuda" else interleaved(runs, seconds)


def random_mask(pattern: Any, shape: Sequence[int], seed: int) -> Any:
    """Return the best mask of a pattern for random scores."""
    from permsearch.patterns import parse_pattern

    scores = torch.rand(tuple(shape), generator=torch.Generator().manual_seed(seed))
    return torch.from_numpy(parse_pattern(pattern).keep(scores.numpy()))


@torch.inference_mode()
def measure(
    pattern: str,
    weight: Tensor,
    mask: Tensor,
    tokens: int,
    *,
    orders: tuple[Any, Any] = (None, None),
    tiles: Any = None,
    device: str = "cpu",
    seconds: float = 1.0,
) -> dict[str, Any]:
    """Return one row of `permsearch bench`: a packed linear layer against the dense masked one.

    The two outputs are compared first.

    Raises
    ------
    KernelError
        When they differ by more than rounding.
    """
    packed = pack(weight, mask, pattern, *orders, tiles=tiles).to(device)
    layer, dense = SparseLinear(packed), packed.unpack()
    x = torch.randn(tokens, weight.shape[1]).to(packed.values)
    _same(layer(x), torch.nn.functional.linear(x, dense))
    runs = [lambda: torch.nn.functional.linear(x, dense), lambda: layer(x)]
    dense_ms, sparse_ms = milliseconds(runs, seconds, device)
    return {
        "pattern": str(pattern),
        "shape": "x".join(map(str, weight.shape)),
        "tokens": tokens,
        "dtype": str(weight.dtype).removeprefix("torch."),
        "device": device,
        "dense_ms": dense_ms,
        "sparse_ms": sparse_ms,
        "speedup": dense_ms / sparse_ms,
        "kernel": choose(packed.values, layer.operands).kernel,
    }


def _same(y: Tensor, expected: Tensor) -> None:
    allowed = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[y.dtype]
    error = float(
        (y.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30)
    )
    if not error <= allowed:
        raise KernelError(f"packed and dense layers differ by {error:.1e} (allowed {allowed:.0e}).")
