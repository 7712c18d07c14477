"""How far perplexity in bfloat16 is from that in float32: a check of `language`'s arithmetic.

``python -m benchmarks.accuracy.language_precision`` compares both on a few windows that nothing is
judged by, for the dense network and for one whose masks are Wanda's, 2:4.
"""

from __future__ import annotations

import math

from benchmarks.accuracy.base import Cell
from benchmarks.accuracy.language import opened
from benchmarks.accuracy.language_stages import losses
from benchmarks.accuracy.language_text import chosen_windows


def main(windows: int = 4) -> None:
    """Print both perplexities and how far apart they are."""
    setting, judged = opened(), chosen_windows(windows)
    for cell in (Cell("dense", ""), Cell("2:4", "wanda")):
        setting.restore()
        if cell.method:
            setting.prune(cell)
        short, long = (
            sum(losses(setting.model, judged, precise=precise)) / windows
            for precise in (False, True)
        )
        print(
            f"{cell.key}: bfloat16 {math.exp(short):.3f}, float32 {math.exp(long):.3f}, "
            f"ratio {math.exp(short - long):.5f}"
        )


if __name__ == "__main__":
    main()
