"""How much more of real weights 2:4 sparsity keeps once the columns are in a better order.

This is what `make demo` runs: the six matrices of one layer of a small sentence encoder, one method
after the other, with the share of sum |w| kept, the proven bound and the CPU time. Run one of::

    python examples/00_demo.py            # about a minute
    python examples/00_demo.py --small    # some seconds: corners of three matrices
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

import permsearch as ps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

DATA = Path(__file__).parent / "data" / "minilm_layer0.safetensors"
SHORT = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attn-out",
    "intermediate.dense": "ffn-in",
    "output.dense": "ffn-out",
}
METHODS = {
    "none": "columns as they are",
    "random": "best of random orders",
    "deal": "sort by mass and deal out",
    "swap": "swap two columns while it helps",
    "window": "re-split pairs of groups (published method)",
    "matching": "pair columns, then pair the pairs",
    "auto": "portfolio: what the budget allows",
}
Row = Mapping[str, Any]


def load(small: bool) -> dict[str, NDArray[np.float16]]:
    """Return the layer's matrices under short names; with `small`, corners of three of them."""
    stored = load_file(DATA)
    weights = {short: stored[f"encoder.layer.0.{name}.weight"] for name, short in SHORT.items()}
    if small:
        return {name: weights[name][:64, :64] for name in ("query", "ffn-in", "ffn-out")}
    return weights


def compile_kernels(console: Console) -> None:
    """Run every method once on a tiny matrix, so that no time below contains compilation."""
    tiny = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    with console.status("compiling the kernels (about a minute the first time, then cached)"):
        for method in METHODS:
            ps.search(tiny, "2:4", solver=method, stop=ps.MaxSteps(20))


def mean(rows: Iterable[Row], key: str) -> float:
    """Return the mean of a column over rows."""
    return float(np.mean([row[key] for row in rows]))


def table_of(rows: list[Row], names: list[str]) -> Table:
    """Return the table: a line for each method, a column for each matrix."""
    table = Table(title="share of sum |w| kept under 2:4", title_style="bold")
    table.add_column("method")
    for name in names:
        table.add_column(name, justify="right")
    for heading in ("mean", "won back", "CPU s"):
        table.add_column(heading, justify="right")
    for method in METHODS:
        own = [row for row in rows if row["solver"] == method]
        kept = [f"{row['retained']:.4f}" for row in own]
        table.add_row(
            method,
            *kept,
            f"{mean(own, 'retained'):.4f}",
            f"{mean(own, 'efficacy'):.1%}",
            f"{sum(row['cpu_seconds'] for row in own):.2f}",
        )
    table.add_section()
    bounds = [min(row["bound"] for row in rows if row["tensor"] == name) for name in names]
    table.add_row(
        "proven bound", *(f"{bound:.4f}" for bound in bounds), f"{np.mean(bounds):.4f}", "", ""
    )
    return table


def draw(rows: list[Row], names: list[str], path: Path) -> None:
    """Draw what each method wins over the columns as they are, matrix by matrix."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    methods = [method for method in METHODS if method != "none"]
    width = 0.8 / len(methods)
    for i, method in enumerate(methods):
        own = [row for row in rows if row["solver"] == method]
        gains = [100 * (row["retained"] - row["baseline"]) for row in own]
        places = np.arange(len(names)) + (i - (len(methods) - 1) / 2) * width
        axes.bar(places, gains, width, label=f"{method}: {METHODS[method]}")
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("gain in percentage points of sum |w|")
    axes.set_title("2:4 magnitude kept beyond the columns as they are")
    axes.legend(fontsize=8)
    axes.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="corners of three matrices")
    parser.add_argument("--seconds", type=float, default=2.0, help="limit for each search")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder to write to")
    return parser.parse_args()


def main() -> None:
    """Compare the methods, print the table, write the picture and the page."""
    args = arguments()
    console = Console()
    weights = load(args.small)
    compile_kernels(console)
    stop = ps.MaxSteps(20) if args.small else ps.MaxSeconds(args.seconds)
    with console.status(f"{len(weights)} matrices, {len(METHODS)} methods"):
        comparison = ps.compare(weights, "2:4", solvers=list(METHODS), stop=stop, seed=0)

    rows, names = list(comparison.rows), list(weights)
    console.print(table_of(rows, names))
    for method, meaning in METHODS.items():
        console.print(f"[bold]{method:<9}[/bold] {meaning}")
    console.print(
        "won back: of what 2:4 loses against keeping the larger half of every row, the share that "
        "the order recovers.\nNo order reaches the bound in general; all shares are recomputed in "
        "float64."
    )

    args.out.mkdir(parents=True, exist_ok=True)
    draw(rows, names, args.out / "demo.png")
    comparison.to_html(args.out / "report.html")
    console.print(f"\npicture: {(args.out / 'demo.png').resolve()}")
    console.print(f"report:  {(args.out / 'report.html').resolve()}")


if __name__ == "__main__":
    main()
