"""What searching large models costs, from shapes: ``python -m benchmarks.scale_models``.

Every group of three models with the formulas of `permsearch.planning`, at the speeds of the
machine that runs this, and what 1, 16 and 1,000 cores make of it. Nothing is searched.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from permsearch.planning import Cost, Speed, cost_of, measure
from permsearch.planning.costs import Shape
from permsearch.planning.speed import TYPICAL
from permsearch.streaming.stream import MEMORY

_WIDE = 1 << 25  # entries of a stack that is read row by row here, as `--solver coarse` may choose
_NODE = 16  # cores that can share one search: its distances run on threads, the rest does not


@dataclass(frozen=True, slots=True)
class Kind:
    """Searches of one shape in a model."""

    name: str
    count: int
    columns: int
    rows: int
    parts: int = 1

    @property
    def weights(self) -> int:
        """Weights that are scored."""
        return self.count * self.columns * self.rows * self.parts

    def cost(self, speed: Speed) -> Cost:
        """Return what one of them takes."""
        shape = Shape(self.columns, self.rows, 2, 4, self.parts)
        streamed = self.parts == 1 and self.columns * self.rows > _WIDE
        return cost_of(shape, "coarse", None, speed, streamed=streamed, budget=MEMORY // 2)


def llama(layers: int, width: int, hidden: int, heads: int, shared: int) -> list[Kind]:
    """Return the groups of a LLaMA: hidden units, values of heads, the residual stream."""
    size = width // heads
    height = width + 2 * shared * size + 2 * hidden
    return [
        Kind("FFN down", layers, hidden, width),
        Kind("values and outputs", layers, size, width * heads // shared, shared),
        Kind("residual stream", 1, width, layers * height),
    ]


def deepseek() -> list[Kind]:
    """Return the groups of a mixture of 671 B weights: 58 layers of 256 experts and a shared one.

    Queries and keys pass through latents of 1536 and 512 channels; 128 heads of 128 values each.
    """
    width, heads, expert = 7168, 128, 2048
    attention = 1536 + 576
    height = 58 * (257 * 2 * expert + 256 + attention) + 3 * (2 * 18432 + attention)
    return [
        Kind("experts' down", 58 * 257, expert, width),
        Kind("dense FFN down", 3, 18432, width),
        Kind("values and outputs", 61, 128, width, heads),
        Kind("query latents", 61, 1536, heads * 192),
        Kind("key-value latents", 61, 512, heads * 256),
        Kind("residual stream", 1, width, height),
    ]


MODELS = {
    "8B": llama(32, 4096, 14336, 32, 8),
    "70B": llama(80, 8192, 28672, 64, 8),
    "671B": deepseek(),
}


def clock(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale_models")
    parser.add_argument("--typical", action="store_true", help="recorded speeds, not measured ones")
    speed = TYPICAL if parser.parse_args().typical else measure()
    print(f"{speed}\n")
    print(
        "| model | groups | searches | columns x rows | CPU, each | CPU, all | memory | scratch |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    totals = []
    for model, kinds in MODELS.items():
        total = longest = 0.0
        for kind in kinds:
            cost = kind.cost(speed)
            seconds = cost.cpu or 0.0
            alone = kind.cost(replace(speed, distances=1e18)).cpu or 0.0
            total += kind.count * seconds
            longest = max(longest, alone + (seconds - alone) / _NODE)
            parts = f"{kind.parts} x " if kind.parts > 1 else ""
            print(
                f"| {model} | {kind.name} | {kind.count:,} | {parts}{kind.columns} x {kind.rows:,} "
                f"| {clock(seconds)} | {clock(kind.count * seconds)} "
                f"| {cost.memory / 2**30:.1f} GiB | {cost.disk / 2**30:.1f} GiB |"
            )
        totals.append((model, sum(kind.weights for kind in kinds), total, longest))
    print("\n| model | weights scored | CPU s a billion | 1 core | 16 cores | 1,000 cores |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model, weights, total, longest in totals:
        times = [clock(total if n == 1 else max(total / n, longest)) for n in (1, 16, 1000)]
        price = total / weights * 1e9
        print(f"| {model} | {weights / 1e9:.1f} B | {price:.0f} | {' | '.join(times)} |")


if __name__ == "__main__":
    main()
