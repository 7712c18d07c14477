"""The matrices that are measured: trained weights where they lie beside the project, and noise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch import instances
from permsearch.io import open_tensors

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "weights"
SAMPLE = ROOT / "examples" / "data" / "minilm_layer0.safetensors"
LAYER = "encoder.layer.0."
_TRAINED = {
    "q0": LAYER + "attention.self.query.weight",
    "ffn-in": LAYER + "intermediate.dense.weight",
    "ffn-out": LAYER + "output.dense.weight",
}
_NOISE = {
    "column-scaled 512": ("lognormal_columns", 512, 512),
    "gaussian 1024": ("gaussian", 1024, 1024),
    "gaussian 4096": ("gaussian", 4096, 4096),
}


def matrix(name: str) -> NDArray[Any]:
    """Return a matrix by the name that the tables use."""
    if name in _TRAINED:
        return np.asarray(open_tensors(SAMPLE).read(_TRAINED[name]))
    if name == "uniform 128x64":
        return np.random.default_rng(1).random((128, 64))
    kind, rows, cols = _NOISE[name]
    return instances.instance(kind, rows, cols, seed=0)


def trained(fits: int = 4) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield every trained weight beside the project whose input channels split by `fits`."""
    for path in sorted(SHARED.glob("*.safetensors")):
        source = open_tensors(path)
        for name in source.names():
            weight = source.read(name)
            floating = weight.dtype.kind == "f"
            if floating and weight.ndim >= 2 and weight.shape[1] % fits == 0 < weight.shape[1]:
                yield f"{path.stem}/{name}", weight
