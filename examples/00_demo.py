"""How much more of real weights 2:4 sparsity keeps once the columns are in a better order.

This is what `make demo` runs: the six matrices of one layer of a small sentence encoder, one method
after the other, with the share of sum |w| kept, the proven bound and the CPU time. Run one of::

    python examples/00_demo.py            # about two minutes
    python examples/00_demo.py --small    # corners of three matrices, a moment each
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

import permsearch as ps

if TYPE_CHECKING:
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
    "none": "the columns as they are",
    "random": "the best of random orders",
    "deal": "sort columns by mass, deal them out, refine by linear assignment",
    "swap": "swap two columns as long as any swap helps",
    "window": "re-split pairs of groups exhaustively: the published search",
    "matching": "pair columns by exact matching, then pair the pairs",
    "auto": "the portfolio: what shape and budget call for",
}
RANDOM_SHARE = 0.1  # of the time of a search: more random orders find next to nothing more
Row = Mapping[str, Any]


def load(small: bool) -> dict[str, NDArray[np.float16]]:
    """Return the layer's matrices under short names; with `small`, corners of three of them."""
    stored = load_file(DATA)
    weights = {short: stored[f"encoder.layer.0.{name}.weight"] for name, short in SHORT.items()}
    if small:
        return {name: weights[name][:64, :64] for name in ("query", "ffn-in", "ffn-out")}
    return weights


def searched(weights: Mapping[str, NDArray[np.float16]], seconds: float) -> ps.Comparison:
    """Compare the methods, each for so many CPU seconds a matrix, random orders for fewer."""
    others = [method for method in METHODS if method != "random"]
    stop, short = (ps.MaxCpuSeconds(share * seconds) for share in (1, RANDOM_SHARE))
    comparison = ps.compare(weights, "2:4", solvers=others, stop=stop, seed=0, bound=True)
    random = ps.compare(weights, "2:4", solvers="random", stop=short, seed=0)
    tight = {row["tensor"]: row for row in comparison.rows}
    rows = list(comparison.rows)
    for row in random.rows:
        limit = tight[row["tensor"]]
        gap = 1 - row["retained"] / limit["bound"]
        rows.append({**row, "bound": limit["bound"], "bound_kind": limit["bound_kind"], "gap": gap})
    names, methods = list(weights), list(METHODS)
    rows.sort(key=lambda row: (names.index(row["tensor"]), methods.index(row["solver"])))
    limits = f"{comparison.about['limit']}, random {short.seconds:g}"
    about = {**comparison.about, "solvers": ", ".join(methods), "limit": limits}
    return replace(comparison, rows=tuple(rows), about=about)


def table_of(comparison: ps.Comparison, names: list[str]) -> Table:
    """Return the table: a line for each method, a column for each matrix."""
    table = Table(
        title="share of sum |w| kept under 2:4", box=SIMPLE_HEAD, padding=0, pad_edge=False
    )
    for name in ["method", *names, "all", "efficacy", "CPU s"]:
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for total in comparison.summary():
        own = [row for row in comparison.rows if row["solver"] == total["solver"]]
        kept = [f"{row['retained']:.4f}" for row in own]
        table.add_row(
            total["solver"],
            *kept,
            f"{total['retained']:.4f}",
            f"{total['efficacy']:.1%}",
            f"{total['cpu_seconds']:.2f}",
        )
    bounds = [min(r["bound"] for r in comparison.rows if r["tensor"] == name) for name in names]
    together = min(total["bound"] for total in comparison.summary())
    table.add_section()
    table.add_row("bound", *(f"{b:.4f}" for b in bounds), f"{together:.4f}", "", "")
    return table


def draw(rows: tuple[Row, ...], names: list[str], path: Path) -> None:
    """Draw what each method wins over the columns as they are, matrix by matrix."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    axes = figure.add_subplot()
    methods = [method for method in METHODS if method != "none"]
    width = 0.8 / len(methods)
    for i, method in enumerate(methods):
        own = [row for row in rows if row["solver"] == method]
        gains = [100 * (row["retained"] - row["baseline"]) for row in own]
        places = np.arange(len(own)) + (i - (len(methods) - 1) / 2) * width
        axes.bar(places, gains, width, label=f"{method}: {METHODS[method]}")
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("gain, percentage points of sum |w|")
    axes.set_title("2:4 magnitude kept beyond what the columns as they are keep")
    figure.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    figure.savefig(path, dpi=120)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="corners of three matrices only")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU seconds for each search")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder to write to")
    return parser.parse_args()


def main() -> None:
    """Compare the methods, print the table, write the picture and the page."""
    args = arguments()
    console = Console()
    weights = load(args.small)
    names = list(weights)
    console.print(
        f"Searching {len(weights)} matrices of one layer of MiniLM with {len(METHODS)} methods.\n"
        "The first run compiles the kernels, about a minute more."
    )
    with console.status("searching"):
        comparison = searched(weights, 0.1 if args.small else args.seconds)

    console.print(table_of(comparison, names))
    for method, meaning in METHODS.items():
        console.print(f"[bold]{method:<9}[/bold] {meaning}")
    console.print("[bold]bound    [/bold] proven: no order keeps more")
    console.print(
        "\nefficacy: 2:4 loses something against keeping the larger half of every row; this is the "
        "share of that loss which the order recovers. All of it cannot be had. Every share is "
        "recomputed in float64.\n"
    )

    args.out.mkdir(parents=True, exist_ok=True)
    draw(comparison.rows, names, args.out / "demo.png")
    comparison.to_html(args.out / "report.html")
    for kind, name in (("picture", "demo.png"), ("report", "report.html")):
        print(f"{kind:<8} {(args.out / name).resolve()}")


if __name__ == "__main__":
    main()
