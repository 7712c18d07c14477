"""How far perplexity in bfloat16 is from that in float32: a check of `language`'s arithmetic.

``python -m benchmarks.accuracy.language_precision`` compares both on a few windows that nothing is
judged by, for the dense network and for one that is pruned by magnitude to 2:4.
"""

from __future__ import annotations

import math

import torch

from benchmarks.accuracy import language_stages as stages
from benchmarks.accuracy.language_orders import weights_of
from benchmarks.accuracy.language_prune import Method, prune_from
from benchmarks.accuracy.language_text import chosen_windows
from benchmarks.network_models import smollm2


def main(windows: int = 4) -> None:
    """Print both perplexities and how far apart they are."""
    torch.set_num_threads(1)
    model, judged = smollm2(), chosen_windows(windows)
    for name in ("dense", "2:4 magnitude"):
        if name != "dense":
            dense = weights_of(model)
            ones = {stages.owner(key): torch.eye(w.shape[1]) for key, w in dense.items()}
            prune_from(model, dense, ones, "2:4", Method("magnitude"), {})
        short, long = (
            sum(stages.losses(model, judged, precise=precise)) / windows
            for precise in (False, True)
        )
        print(
            f"{name}: bfloat16 {math.exp(short):.3f}, float32 {math.exp(long):.3f}, "
            f"ratio {math.exp(short - long):.5f}"
        )


if __name__ == "__main__":
    main()
