"""Packed layers against dense ones: ``python -m benchmarks.kernels`` (see --help).

Dense and packed take turns in one run; medians. With one thread the thread's CPU time counts,
which other work on the machine disturbs little; with more it is wall time, so the machine has to
be quiet. Weights are random: what is timed does not depend on their values. The encoder's are real.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import sparsekernels as sk
from benchmarks import kernel_tables, machine
from sparsekernels.timing import interleaved, measure, random_mask

if TYPE_CHECKING:
    from types import ModuleType

Row = dict[str, Any]
SHAPES = ((3072, 768), (768, 3072))
FEW, MANY = (1, 2, 4, 8, 16), (128, 256, 512)
PATTERNS = {
    "vector:32@0.25": 3.3,  # aims at 75 %; 2x is what half of the weights allow
    "vector:64@0.25": 3.3,
    "vector:32@0.5": 2.0,
    "tile:128@0.25": 2.0,
    "block:16x16@0.25": None,
    "2:4": None,
    "64:2:8": 1.8,
    "hinm:32@0.5:2:4": None,
}
# A pointwise convolution of MobileNetV2 and a 3 x 3 one: out, in, kernel, height and width, aim.
CONVS = ((320, 960, 1, 7, 1.6), (256, 256, 3, 14, 1.6))
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "06_packed_minilm.py"


def linear(seconds: float, dtypes: tuple[torch.dtype, ...]) -> Iterator[Row]:
    """Yield a row for each pattern, shape, type and number of tokens."""
    for dtype in dtypes:
        for pattern in PATTERNS:
            for shape in SHAPES:
                weight = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
                mask, rows = shuffled(pattern, shape)
                for tokens in FEW + MANY:
                    yield measure(
                        pattern, weight, mask, tokens, orders=(rows, None), seconds=seconds
                    )


def shuffled(pattern: str, shape: tuple[int, int]) -> tuple[Tensor, Tensor | None]:
    """Return a mask whose rows are in a drawn order, and the order: Shfl-BW for vectors."""
    mask: Tensor = random_mask(pattern, shape, 0)
    if not pattern.startswith(("vector", "tile")):
        return mask, None
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(1))
    return mask[order.argsort()], order


@torch.inference_mode()
def against_unpacking(seconds: float) -> Iterator[Row]:
    """Yield rows of N:M and V:N:M against unpacking the weight and multiplying it."""
    for pattern in ("2:4", "64:2:8"):
        for shape in SHAPES:
            weight, mask = torch.randn(shape), random_mask(pattern, shape, 0)
            packed = sk.pack(weight, mask, pattern)
            layer = sk.SparseLinear(packed)
            for tokens in (1, 16, 128, 512):
                yield _unpacking_row(packed, layer, torch.randn(tokens, shape[1]), seconds)


def _unpacking_row(packed: sk.PackedWeight, layer: Any, x: Tensor, seconds: float) -> Row:
    unpacking, ours = interleaved(
        [lambda: torch.nn.functional.linear(x, packed.unpack()), lambda: layer(x)], seconds
    )
    return {
        "pattern": packed.pattern,
        "shape": "x".join(map(str, packed.shape)),
        "tokens": len(x),
        "unpack_and_dense_ms": unpacking,
        "sparse_ms": ours,
        "speedup": unpacking / ours,
    }


@torch.inference_mode()
def convolutions(seconds: float) -> Iterator[Row]:
    """Yield a row for each convolution and pattern, batch 8."""
    for out, channels, kernel, size, _ in CONVS:
        x = torch.randn(8, channels, size, size)
        for pattern in ("vector:32@0.25", "tile:128@0.25", "2:4"):
            shape = (out, channels, kernel, kernel)
            weight, mask = torch.randn(shape), random_mask(pattern, shape, 0)
            yield _conv_row(sk.pack(weight, mask, pattern), x, kernel // 2, seconds)


def _conv_row(packed: sk.PackedWeight, x: Tensor, padding: int, seconds: float) -> Row:
    layer, dense = sk.SparseConv2d(packed, padding=padding), packed.unpack()
    run: Callable[[], Tensor] = lambda: torch.nn.functional.conv2d(x, dense, padding=padding)  # noqa: E731
    assert torch.allclose(layer(x), run(), atol=1e-3)
    dense_ms, sparse_ms = interleaved([run, lambda: layer(x)], seconds)
    return {
        "pattern": packed.pattern,
        "shape": "x".join(map(str, packed.shape)),
        "input": "x".join(map(str, x.shape)),
        "dense_ms": dense_ms,
        "sparse_ms": sparse_ms,
        "speedup": dense_ms / sparse_ms,
    }


@torch.inference_mode()
def encoder(seconds: float) -> Iterator[Row]:
    """Yield a row for each choice of packed layers: MiniLM, 32 sentences of 128 tokens."""
    example = _example()
    torch.manual_seed(0)
    tensors = example.weights(small=False)
    batch = torch.randint(1000, (32, 128))
    for attention in (False, True):
        dense = example.Encoder(tensors).eval()
        bundle = example.bundle_of(dense, "vector:32@0.25", attention, 3)
        for name, entry in bundle.items():
            example.linear(dense, name).weight.mul_(entry.mask)
        packed = copy.deepcopy(dense)
        sk.swap_modules_(packed, bundle, strict=True)
        difference = float((dense(batch) - packed(batch)).abs().max())
        times = interleaved([lambda: dense(batch), lambda: packed(batch)], 8 * seconds)  # noqa: B023
        yield {
            "packed": "feed-forward and attention" if attention else "feed-forward",
            "layers": len(dense.layers),
            "batch": "32x128",
            "dense_ms": times[0],
            "sparse_ms": times[1],
            "speedup": times[0] / times[1],
            "difference": difference,
        }


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packed_minilm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Measure what is asked for, print rows as they come, write JSON and the page's tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=" | ".join(PARTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each case")
    parser.add_argument("--bfloat16", action="store_true", help="time that type as well")
    parser.add_argument("--json", type=Path, default=Path("out/kernels.json"))
    parser.add_argument(
        "--page", type=Path, action="append", default=[], help="Markdown page to renew; may repeat"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part {unknown.pop()!r}; choose from {', '.join(PARTS)}")
    torch.set_num_threads(arguments.threads)
    types = (torch.float32, torch.bfloat16) if arguments.bfloat16 else (torch.float32,)
    about = machine.describe() | {"threads": arguments.threads, "kernels": _kernels()}
    found: dict[str, Any] = {"kernel machine": about}
    for part in arguments.parts:
        rows = (
            linear(arguments.seconds, types) if part == "linear" else PARTS[part](arguments.seconds)
        )
        found[f"kernels {part}"] = []
        for row in rows:
            print("  ".join(f"{key}={_short(value)}" for key, value in row.items()), flush=True)
            found[f"kernels {part}"].append(row)
        _write(arguments, found)


def _write(arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    """Write what there is so far."""
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for page in arguments.page:
        text = page.read_text(encoding="utf-8")
        page.write_text(kernel_tables.render(text, found), encoding="utf-8")


PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "linear": linear,
    "unpacking": against_unpacking,
    "convolutions": convolutions,
    "encoder": encoder,
}


def _kernels() -> str:
    packed = sk.pack(torch.eye(8), None, "vector:8@1")
    from sparsekernels.ops.dispatch import choose

    return choose(packed.values, packed.operands).kernel


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
