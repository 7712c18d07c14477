"""Draw the pictures of the pages on concepts: ``python docs/draw_concepts.py``.

Plain SVG, written without a plotting library: the same numbers give the same bytes, which a test
compares. Masks and shares are those that the library computes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import permsearch as ps

HERE = Path(__file__).parent
CELL = 30
INK, QUIET, GROUND, LINE = "#1d2329", "#5c6670", "#ffffff", "#cfd5da"
KEPT, DROPPED = "#4269d0", "#eef0f2"
UNITS = ("#4269d0", "#e08a00", "#12937f", "#9a5fe0")

# Four rows whose large entries stand in the same columns: neighbours compete, strangers idle.
WEIGHT = np.array(
    [
        [9, 8, 7, 1, 2, 1, 1, 3],
        [8, 6, 7, 2, 1, 3, 2, 1],
        [7, 9, 6, 1, 3, 2, 5, 2],
        [1, 7, 8, 5, 1, 2, 1, 6],
    ],
    dtype=np.float64,
)
PATTERNS = (
    ("2:4", "N:M"),
    ("8:2:8", "V:N:M"),
    ("hinm:8@0.5:2:4", "hierarchical"),
    ("transposable:2:4", "transposable"),
    ("vector:8@0.25", "vectors"),
    ("block:4x4@0.25", "blocks"),
    ("unaligned:4@0.25", "unaligned"),
    ("tile:8@0.25", "tiles"),
)


def _text(x: float, y: float, text: str, size: int = 13, colour: str = INK, more: str = "") -> str:
    at = f'x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}"'
    return f'<text {at} text-anchor="middle"{more}>{text}</text>'


def _rect(x: float, y: float, w: float, h: float, fill: str, more: str = "") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{fill}"{more}/>'


def _picture(width: int, height: int, label: str, parts: Iterator[str] | Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{label}" '
        'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">'
    )
    ground = _rect(0, 0, width, height, GROUND, ' rx="8"')
    return "\n".join([head, ground, *parts, "</svg>", ""])


def _matrix(
    left: float, top: float, scores: NDArray[np.float64], mask: NDArray[np.bool_], m: int
) -> Iterator[str]:
    """Yield cells with their numbers, kept ones blue, a gap between groups of m columns."""
    for (row, col), value in np.ndenumerate(scores):
        x, y = left + col * CELL + col // m * 10, top + row * CELL
        kept = bool(mask[row, col])
        yield _rect(x + 1, y + 1, CELL - 2, CELL - 2, KEPT if kept else DROPPED, ' rx="3"')
        colour = "#ffffff" if kept else QUIET
        yield _text(x + CELL / 2, y + CELL / 2 + 5, f"{value:g}", colour=colour)


def order_picture() -> str:
    """Return the drawing of one weight under 2:4, as stored and in the best order."""
    result = ps.search(WEIGHT, "2:4")
    pattern, cols = ps.parse_pattern("2:4"), result.cols
    sides = (
        (40, np.arange(8), pattern.keep(WEIGHT), result.baseline, "as stored"),
        (400, cols, result.permuted_mask, result.score, "columns reordered"),
    )

    def parts() -> Iterator[str]:
        for left, order, mask, score, title in sides:
            kept = f"2:4 keeps {score:g} of {WEIGHT.sum():g}"
            yield _text(left + 125, 26, title, 15, INK, ' font-weight="600"')
            for at, col in enumerate(order):
                x = left + at * CELL + at // 4 * 10 + CELL / 2
                yield _text(x, 50, f"{col}", 12, QUIET)
            yield from _matrix(left, 58, WEIGHT[:, order], mask, 4)
            yield _text(left + 125, 202, kept, 15)
        yield _text(345, 122, "→", 26, QUIET)
        yield _text(345, 228, "small numbers on top: the old place of each column", 12, QUIET)

    return _picture(690, 244, "A weight under 2:4 before and after reordering", parts())


def free_picture() -> str:
    """Return the drawing of why an order of hidden units is free."""
    orders = ((40, (0, 1, 2, 3), "as trained"), (400, (2, 0, 3, 1), "hidden units reordered"))

    def parts() -> Iterator[str]:
        for left, order, title in orders:
            yield _text(left + 125, 26, title, 15, INK, ' font-weight="600"')
            for at, unit in enumerate(order):
                colour = UNITS[unit]
                yield from (
                    _rect(left + j * 24, 52 + at * 24, 22, 22, colour, ' rx="3"') for j in range(4)
                )
                yield _rect(left + 108, 52 + at * 24, 22, 22, colour, ' rx="3" opacity="0.45"')
                yield from (
                    _rect(left + 154 + at * 24, 52 + i * 24, 22, 22, colour, ' rx="3"')
                    for i in range(4)
                )
            yield _text(left + 47, 166, "writes: rows", 12, QUIET)
            yield _text(left + 119, 166, "bias", 12, QUIET)
            yield _text(left + 201, 166, "reads: columns", 12, QUIET)
        yield _text(345, 106, "→", 26, QUIET)
        yield _text(345, 194, "one colour is one hidden unit; the output is the same", 12, QUIET)

    return _picture(690, 210, "Rows of one weight and columns of the next move together", parts())


def patterns_picture() -> str:
    """Return the drawing of one mask of every pattern on the same scores."""
    scores = np.abs(ps.instances.gaussian(16, 16, seed=4))
    size = 8

    def parts() -> Iterator[str]:
        for at, (text, name) in enumerate(PATTERNS):
            x, y = 24 + at % 4 * 166, 20 + at // 4 * 190
            mask = ps.parse_pattern(text).keep(scores)
            yield _rect(x, y, 16 * size, 16 * size, DROPPED)
            cells = "".join(
                f"M{x + col * size:g} {y + row * size:g}h{size}v{size}h-{size}z"
                for row, col in np.argwhere(mask)
            )
            yield f'<path d="{cells}" fill="{KEPT}" stroke="{GROUND}" stroke-width="0.6"/>'
            yield _text(x + 64, y + 147, name, 13, INK, ' font-weight="600"')
            yield _text(
                x + 64, y + 163, text, 11, QUIET, ' font-family="ui-monospace, Menlo, monospace"'
            )

    return _picture(680, 390, "A mask of every pattern on one 16 x 16 weight", parts())


PICTURES = {"order": order_picture, "free": free_picture, "patterns": patterns_picture}


def main(names: list[str]) -> None:
    """Draw the pictures that are named, or all of them."""
    for name in names or PICTURES:
        (HERE / "images" / f"{name}.svg").write_text(PICTURES[name](), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
