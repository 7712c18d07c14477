"""Draw the mask of every pattern before and after a search: ``python docs/draw_patterns.py``.

The weight is a corner of a trained layer (`examples/data`), the steps and seeds are fixed, so the
pictures come out the same wherever they are drawn. Needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import permsearch as ps
from permsearch.io import open_tensors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "examples" / "data" / "minilm_layer0.safetensors"
LAYER = "encoder.layer.0.attention.self.query.weight"
STEPS = 300
PICTURES = {
    "nm": "2:4",
    "vnm": "16:2:8",
    "hinm": "hinm:8@0.5:2:4",
    "vector": "vector:8@0.25",
    "block": "block:4x4@0.25",
    "unaligned": "unaligned:4@0.25",
    "tile": "tile:16@0.25+0.02",
    "transposable": "transposable:2:4",
    "unstructured": "unstructured@0.25",
}


def _weight() -> NDArray[Any]:
    return open_tensors(SAMPLE).read(LAYER)[:64, :96].astype(np.float32)


def _image(scores: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return red, green and blue: kept entries blue, dropped ones grey, large ones darker."""
    strength = np.clip(scores / np.quantile(scores, 0.98), 0, 1)[..., None] ** 0.7
    kept = 1 - strength * np.array([0.95, 0.62, 0.25]) - np.array([0.05, 0.03, 0.0])
    dropped = 0.97 - 0.25 * strength * np.ones(3)
    return np.clip(np.where(mask[..., None], kept, dropped), 0, 1)


def _panel(axes: Axes, scores: NDArray[Any], mask: NDArray[np.bool_], title: str) -> None:
    axes.imshow(_image(scores, mask), interpolation="nearest")
    axes.set_title(f"{title}: keeps {scores[mask].sum() / scores.sum():.3f}", fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("input channels", fontsize=8)
    axes.set_ylabel("output channels", fontsize=8)


def draw(name: str, text: str, folder: Path) -> None:
    """Write the picture of one pattern."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    weight = _weight()
    scores = np.abs(weight)
    pattern = ps.parse_pattern(text)
    result = ps.search(weight, pattern, stop=ps.MaxSteps(STEPS), seed=0)
    stored = scores[result.rows][:, result.cols]
    figure = Figure(figsize=(9.0, 3.3), layout="constrained")
    FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2)
    _panel(left, scores, pattern.keep(scores), f"{text}, order as stored")
    _panel(right, stored, result.permuted_mask, f"{text}, after the search")
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": "permsearch"})


def main(names: list[str]) -> None:
    """Draw the pictures that are named, or all of them."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "permsearch"
    mpl.rcParams["svg.fonttype"] = "none"
    folder = HERE / "patterns"
    folder.mkdir(exist_ok=True)
    for name in names or PICTURES:
        draw(name, PICTURES[name], folder)


if __name__ == "__main__":
    main(sys.argv[1:])
