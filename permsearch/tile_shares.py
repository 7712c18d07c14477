"""One tile-wise budget over several layers: every layer gets the share that it deserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from permsearch.arrays import frozen_scores
from permsearch.errors import PatternError, ProblemError, unknown
from permsearch.layout import taps_as_columns
from permsearch.orders import as_order
from permsearch.patterns import Pattern, TileWise, parse_pattern
from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.share import share_of
from permsearch.patterns.tiling import best_level
from permsearch.patterns.top import top_mask

F64 = NDArray[np.float64]


def tile_shares(
    scores: Mapping[str, Any],
    pattern: str | Pattern,
    *,
    orders: Mapping[str, ArrayLike] | None = None,
) -> dict[str, TileWise]:
    """Return a tile-wise pattern for each layer, whose shares add up to one budget.

    Pieces of all layers are ranked together by what an entry of theirs is worth on average, and
    the best fill the area; the overlay takes the best entries outside of them. Every layer keeps
    one piece at least. Scores of different layers are compared as they are: weigh them first
    where a layer's entries matter more than another's.

    Parameters
    ----------
    scores
        Scores of each layer by name, shape (out, in, *k), finite and >= 0.
    pattern
        Rows of a tile and the shares that all layers keep together, such as ``"tile:128@0.25"``.
    orders
        Orders of the rows by layer; those left out stay as they are. After a search the shares
        can be set again for the orders found, and so on.

    Raises
    ------
    PatternError
        When the pattern is not tile-wise, or the budget holds no piece of every layer.
    ProblemError
        When there are no layers.
    UnknownName
        When an order names no layer.

    Examples
    --------
    >>> weak, strong = np.full((4, 8), 1.0), np.full((4, 8), 3.0)
    >>> {name: str(own) for name, own in
    ...  tile_shares({"weak": weak, "strong": strong}, "tile:2@0.5").items()}
    {'weak': 'tile:2@0.0625', 'strong': 'tile:2@0.9375'}
    """
    whole = parse_pattern(pattern)
    if not isinstance(whole, TileWise):
        raise PatternError(f"a budget over tiles needs a tile-wise pattern, got {whole}.")
    if not scores:
        raise ProblemError("a budget is shared by one layer at least; scores hold none.")
    orders = {} if orders is None else orders
    for name in orders:
        if name not in scores:
            raise unknown("layer", name, scores)
    layers = [_Layer.of(name, scores[name], orders.get(name), whole.g) for name in scores]
    size = sum(layer.matrix.size for layer in layers)
    over = share_of(whole.overlay, size) if whole.overlay else 0
    area = share_of(whole.kept, size) - over
    least = sum(layer.least for layer in layers)
    if area < least:
        raise PatternError(
            f"{whole} keeps {area} of the {size} entries of {len(layers)} layers in tiles; one "
            f"piece of each needs {least}. Keep a larger share or leave layers out."
        )

    def attempt(level: float) -> tuple[float, float, list[tuple[int, int]]]:
        masks = _pieces(layers, whole.g, area, level)
        return _with_overlay(layers, masks, over)

    counts = best_level(attempt) if over else attempt(np.inf)[2]
    return {
        layer.name: TileWise(whole.g, min(1.0, (own + extra) / layer.size), extra / layer.size)
        for layer, (own, extra) in zip(layers, counts, strict=True)
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """A layer's matrix in storage order, and the entries of its smallest piece."""

    name: str
    matrix: Scores
    least: int

    @classmethod
    def of(cls, name: str, given: Any, order: ArrayLike | None, g: int) -> _Layer:
        matrix = taps_as_columns(frozen_scores(given, name))
        if order is not None:
            matrix = matrix[as_order(order, len(matrix), f"the order of {name}")]
        return cls(name, matrix, min(g, len(matrix)))

    @property
    def size(self) -> int:
        return self.matrix.size


def _pieces(layers: list[_Layer], g: int, area: int, level: float) -> list[Mask]:
    """Return the masks of the best pieces of all layers, of scores cut off at a level."""
    means, heights, forced = [], [], []
    for layer in layers:
        cut = np.minimum(layer.matrix, level)
        own = np.array(
            [cut[r : r + g].mean(axis=0, dtype=np.float64) for r in range(0, len(cut), g)]
        )
        height = np.minimum(g, len(cut) - g * np.arange(len(own)))
        means.append(own.ravel())
        heights.append(height.repeat(own.shape[1]))
        first = np.zeros(own.shape, dtype=np.bool_)
        first[0, np.argmax(own[0])] = True  # one piece of every layer, whatever it is worth
        forced.append(first.ravel())
    rank = np.where(np.concatenate(forced), np.inf, np.concatenate(means))
    chosen = _filling(rank, np.concatenate(heights), area)
    ends = np.cumsum([len(own) for own in means])[:-1]
    return [
        part.reshape(-1, layer.matrix.shape[1]).repeat(g, axis=0)[: len(layer.matrix)]
        for part, layer in zip(np.split(chosen, ends), layers, strict=True)
    ]


def _filling(rank: F64, heights: NDArray[np.int64], area: int) -> Mask:
    """Return the best pieces that fit into an area, then lower ones in what is left of it."""
    order = np.argsort(-rank, kind="stable")
    chosen = np.zeros(len(order), dtype=np.bool_)
    fits = np.cumsum(heights[order]) <= area
    chosen[order[fits]] = True
    room = area - int(heights[order[fits]].sum())
    for place in order[~fits]:
        if room < heights.min():
            break
        if heights[place] <= room:
            chosen[place] = True
            room -= int(heights[place])
    return chosen


def _with_overlay(
    layers: list[_Layer], masks: list[Mask], over: int
) -> tuple[float, float, list[tuple[int, int]]]:
    """Return what pieces and overlay hold, the overlay's least entry, and each layer's counts."""
    inside = sum(
        float(layer.matrix[mask].sum(dtype=np.float64))
        for layer, mask in zip(layers, masks, strict=True)
    )
    rest = [
        layer.matrix[~mask].astype(np.float64) for layer, mask in zip(layers, masks, strict=True)
    ]
    everything = np.concatenate(rest)
    taken = top_mask(everything, min(over, everything.size))
    ends = np.cumsum([len(part) for part in rest])[:-1]
    extra = [int(part.sum()) for part in np.split(taken, ends)]
    counts = [(int(mask.sum()), more) for mask, more in zip(masks, extra, strict=True)]
    least = float(everything[taken].min()) if taken.any() else 0.0
    return inside + float(everything[taken].sum()), least, counts
