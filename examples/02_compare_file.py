"""Several methods over every matrix of a file, as a table, as JSON and as one HTML page.

python examples/02_compare_file.py --out out/compare            # about a minute
python examples/02_compare_file.py --out out/compare --small    # some seconds
python examples/02_compare_file.py model.safetensors --pattern 1:4 --out out/mine
"""

from __future__ import annotations

import argparse
from pathlib import Path

import permsearch as ps

DATA = Path(__file__).parent / "data" / "minilm_layer0.safetensors"
SOLVERS = ["none", "random", "swap", "auto"]


def main() -> None:
    """Compare the methods, print a row for each tensor and method, write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", nargs="?", default=DATA, type=Path, help="the file to read")
    parser.add_argument("--pattern", default="2:4")
    parser.add_argument("--out", default=Path("out/compare"), type=Path, help="folder to write to")
    parser.add_argument("--small", action="store_true", help="only a moment for each method")
    args = parser.parse_args()

    stop = ps.MaxSeconds(0.3 if args.small else 2)
    comparison = ps.compare(args.path, args.pattern, solvers=SOLVERS, stop=stop, seed=0)

    print(f"{'tensor':<45} {'solver':<8} {'retained':>8} {'bound':>8} {'cpu s':>7}")
    for row in comparison.rows:
        print(
            f"{row['tensor']:<45} {row['solver']:<8} {row['retained']:>8.4f} "
            f"{row['bound']:>8.4f} {row['cpu_seconds']:>7.2f}"
        )

    args.out.mkdir(parents=True, exist_ok=True)
    comparison.to_json(args.out / "comparison.json")
    comparison.to_html(args.out / "comparison.html")
    print(f"wrote {args.out / 'comparison.json'} and {args.out / 'comparison.html'}")


if __name__ == "__main__":
    main()
