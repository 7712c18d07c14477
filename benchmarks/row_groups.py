"""Row orders for vectors and tiles at fixed times, and one tile-wise budget over several layers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import permsearch as ps
from benchmarks.matrices import SHARED, matrix
from permsearch.io import open_tensors
from permsearch.published.tilewise import Rule, tile_wise

if TYPE_CHECKING:
    import argparse

SINGLE = (
    ("vector:32@0.25", "q0", 1.0),
    ("vector:32@0.25", "ffn-in", 2.0),
    ("vector:32@0.25", "ffn-out", 2.0),
    ("vector:32@0.25/group", "q0", 0.25),
    ("vector:32@0.25/group", "q0", 1.0),
    ("vector:32@0.25/group", "ffn-in", 1.0),
    ("vector:32@0.25/group", "ffn-in", 6.0),
    ("vector:32@0.25/group", "ffn-out", 0.5),
    ("vector:32@0.25/group", "ffn-out", 2.0),
    ("vector:64@0.25/group", "gaussian 4096", 10.0),
    ("vector:64@0.25/group", "gaussian 4096", 60.0),
    ("tile:128@0.25", "ffn-in", 1.0),
    ("tile:128@0.25", "expand", 1.0),
    ("tile:128@0.25", "q0", 1.0),
    ("tile:128@0.25+0.01", "ffn-in", 1.0),
    ("tile:128@0.25+0.01", "expand", 1.0),
    ("tile:128@0.25+0.01", "q0", 1.0),
)
BUDGETS = ("tile:128@0.25", "tile:64@0.25", "tile:128@0.25+0.01")
EXPAND = "_blocks.13._expand_conv.weight"


def _weight(name: str) -> NDArray[Any]:
    if name == "expand":
        source = open_tensors(SHARED / "efficientnet_lite0.safetensors")
        return _scores(np.asarray(source.read(EXPAND)))
    return _scores(matrix(name))


def _scores(weight: NDArray[Any]) -> NDArray[np.float32]:
    scores: NDArray[np.float32] = np.abs(weight).astype(np.float32)
    return scores


def _searched(pattern: str, name: str, seconds: float) -> dict[str, Any]:
    """Return what our search reaches, and what the published one does at its own effort."""
    weight = _weight(name)
    result = ps.search(weight, pattern, stop=ps.MaxCpuSeconds(seconds))
    parsed = result.problem.terms[0].pattern
    begun = time.process_time()
    if isinstance(parsed, ps.TileWise):
        kept = float(weight[tile_wise([weight], parsed)[0].mask].sum(dtype=np.float64))
    else:
        kept = ps.search(weight, pattern, solver="kmeans").score
    return {
        "pattern": pattern,
        "matrix": name,
        "none": result.share(result.baseline),
        "published": kept / result.total,
        "published_seconds": time.process_time() - begun,
        "ours": result.retained,
        "ours_seconds": result.cpu,
        "bound": result.share(result.bound),
    }


def _budget(text: str, layers: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what one budget over layers keeps, ranked as published and by shares and searches."""
    pattern = ps.parse_pattern(text)
    assert isinstance(pattern, ps.TileWise)
    total = sum(float(weight.sum(dtype=np.float64)) for weight in layers.values())

    def published(rule: Rule) -> float:
        pruned = tile_wise(list(layers.values()), pattern, rule=rule)
        pairs = zip(layers.values(), pruned, strict=True)
        return sum(float(w[own.mask].sum(dtype=np.float64)) for w, own in pairs) / total

    shares = ps.tile_shares(layers, pattern)
    found = [
        ps.search(layers[name], own, stop=ps.MaxCpuSeconds(0.4)) for name, own in shares.items()
    ]
    return {
        "pattern": text,
        "length": published("length"),
        "rms": published("rms"),
        "mean": published("mean"),
        "ours": sum(result.score for result in found) / total,
    }


def _layers() -> dict[str, NDArray[Any]]:
    source = open_tensors(SHARED / "minilm.safetensors")
    names = [name for name in source.names() if "encoder.layer.0." in name]
    read = {name: np.asarray(source.read(name)) for name in names}
    return {name: _scores(weight) for name, weight in read.items() if weight.ndim == 2}


def measure(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """Yield single matrices at fixed times, then budgets over the layers of a block."""
    wanted = [case for case in SINGLE if options.only in case[0] or options.only in case[1]]
    yield "row_groups", (_searched(*case) for case in wanted if case[2] <= options.longest)
    layers = _layers()
    yield "tile_budget", (_budget(text, layers) for text in BUDGETS if options.only in text)
