"""Tile-wise pruning as published: outputs, then pieces, ranked over all layers together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.share import share_of
from permsearch.patterns.tile import TileWise
from permsearch.patterns.top import top_mask

Rule = Literal["rms", "mean", "length"]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PrunedTiles:
    """What tile-wise pruning makes of one layer.

    Attributes
    ----------
    mask
        bool, shape of the weight.
    rows
        The outputs that stay in stored order, then those dropped, int64: a mask whose rows are in
        this order is one of the pattern's for the share that it keeps.
    """

    mask: Mask
    rows: NDArray[np.int64]


def tile_wise(
    layers: Sequence[Scores],
    pattern: TileWise,
    *,
    rule: Rule = "rms",
    apriori: float = 0.0,
    stages: int = 1,
) -> list[PrunedTiles]:
    """Return the masks of published tile-wise pruning, layer by layer.

    With d the share that pieces keep, outputs are ranked over all layers and those of a share of
    the root of d stay; the survivors of a layer are cut into tiles in stored order, and pieces are
    ranked over all tiles of all layers, until the share d is used up. Last, the best single
    entries outside the pieces, of all layers together, come back as the overlay.

    Corrected against the released code: shares are counted by area along a stable ranking instead
    of cut at a percentile, which keeps a wrong number under ties, and units are ranked by their
    root mean square, since a norm over the length favours the short pieces of last tiles.

    Parameters
    ----------
    layers
        Scores of each layer, shape (out, in, *k), >= 0.
    pattern
        Rows of a tile and the shares that all layers keep together, the overlay's included.
    rule
        ``rms``; ``mean``: of the scores themselves; ``length``: norm over length, as released.
    apriori
        Share of the units that are decided before the ranking: those that pruning single entries
        would leave emptiest go, and as many of the fullest stay. (How many was not at hand: our
        choice.)
    stages
        Number of steps in which the share is lowered to its target, see `targets`; training goes
        on between them, here the scores stay, without what an earlier stage dropped.

    References
    ----------
    Guo, Hsueh, Leng, et al.: Accelerating sparse DNN models without hardware-support via
    tile-wise sparsity, SC 2020, arXiv 2008.13006.
    """
    if not 0 <= apriori <= 0.5:
        raise ValueError(f"apriori is a share of each end: it must lie in [0, 0.5], got {apriori}.")
    matrices = [taps_as_columns(scores).astype(np.float64) for scores in layers]
    size = sum(matrix.size for matrix in matrices)
    over = share_of(pattern.overlay, size) if pattern.overlay else 0
    area = share_of(pattern.kept, size) - over
    alive = [np.ones(matrix.shape, dtype=np.bool_) for matrix in matrices]
    rows: list[NDArray[np.int64]] = []
    for kept in targets(area / size, stages):
        masked = [np.where(mask, matrix, 0.0) for mask, matrix in zip(alive, matrices, strict=True)]
        rows = _outputs(masked, kept, rule, apriori)
        alive = _pieces(masked, rows, pattern.g, share_of(kept, size), rule, apriori, kept)
    if over:
        _overlay(matrices, alive, over)
    return [
        PrunedTiles(weight_from_columns(mask, scores.shape), _with_dropped(own, len(mask)))
        for mask, own, scores in zip(alive, rows, layers, strict=True)
    ]


def targets(kept: float, stages: int) -> tuple[float, ...]:
    """Return the shares kept stage by stage, falling evenly to the target.

    Examples
    --------
    >>> targets(0.25, 3)
    (0.75, 0.5, 0.25)
    """
    return tuple(1 - (1 - kept) * (stage + 1) / stages for stage in range(stages))


def _strength(squares: F64, sums: F64, length: float, rule: Rule) -> F64:
    """Return what units of one length are ranked by."""
    if rule == "mean":
        return sums / length
    strength: F64 = np.sqrt(squares) / (length if rule == "length" else np.sqrt(length))
    return strength


def _outputs(
    matrices: Sequence[F64], kept: float, rule: Rule, apriori: float
) -> list[NDArray[np.int64]]:
    """Return the outputs of each layer that stay."""
    strengths = [
        _strength((matrix**2).sum(axis=1), matrix.sum(axis=1), matrix.shape[1], rule)
        for matrix in matrices
    ]
    fullness = [filled.mean(axis=1) for filled in _filled(matrices, kept)]
    lengths = [np.full(len(matrix), matrix.shape[1]) for matrix in matrices]
    room = np.sqrt(kept) * sum(matrix.size for matrix in matrices)
    strength = _decided(strengths, fullness, apriori)
    chosen = _ranked(strength, np.concatenate(lengths), room)
    chosen[np.argmax(strength)] = True  # one output stays where the share holds none
    ends = np.cumsum([len(matrix) for matrix in matrices])[:-1]
    return [np.flatnonzero(part) for part in np.split(chosen, ends)]


def _pieces(
    matrices: Sequence[F64],
    rows: Sequence[NDArray[np.int64]],
    g: int,
    area: int,
    rule: Rule,
    apriori: float,
    kept: float,
) -> list[Mask]:
    """Return the masks of the best pieces of all tiles of all layers."""
    strengths, fullness, areas, where = [], [], [], []
    filled = _filled(matrices, kept)
    for layer, own in enumerate(rows):
        for first in range(0, len(own), g):
            tile = own[first : first + g]
            part = matrices[layer][tile]
            strengths.append(_strength((part**2).sum(axis=0), part.sum(axis=0), len(tile), rule))
            fullness.append(filled[layer][tile].mean(axis=0))
            areas.append(np.full(part.shape[1], len(tile)))
            where.append((layer, tile))
    chosen = _ranked(_decided(strengths, fullness, apriori), np.concatenate(areas), area)
    masks = [np.zeros(matrix.shape, dtype=np.bool_) for matrix in matrices]
    ends = np.cumsum([len(part) for part in areas])[:-1]
    for (layer, tile), kept_here in zip(where, np.split(chosen, ends), strict=True):
        masks[layer][np.ix_(tile, np.flatnonzero(kept_here))] = True
    return masks


def _filled(matrices: Sequence[F64], kept: float) -> list[Mask]:
    """Return the masks of pruning single entries, ranked over all layers."""
    flat = np.concatenate([matrix.ravel() for matrix in matrices])
    mask = top_mask(flat, share_of(kept, flat.size))
    ends = np.cumsum([matrix.size for matrix in matrices])[:-1]
    return [
        part.reshape(matrix.shape)
        for part, matrix in zip(np.split(mask, ends), matrices, strict=True)
    ]


def _decided(strengths: Sequence[F64], fullness: Sequence[F64], apriori: float) -> F64:
    """Return all strengths, those of the emptiest units 0 and of the fullest infinite."""
    strength = np.concatenate(strengths)
    count = share_of(apriori, len(strength)) if apriori else 0
    if count:
        order = np.argsort(np.concatenate(fullness), kind="stable")
        strength[order[:count]] = 0.0
        strength[order[len(order) - count :]] = np.inf
    return strength


def _ranked(strength: F64, areas: NDArray[np.int64], room: float) -> Mask:
    """Return the strongest units that fit into an area; of equal ones the first come first."""
    order = np.argsort(-strength, kind="stable")
    chosen = np.zeros(len(order), dtype=np.bool_)
    chosen[order[np.cumsum(areas[order]) <= room + 1e-9]] = True
    return chosen


def _overlay(matrices: Sequence[F64], masks: Sequence[Mask], count: int) -> None:
    """Add the best entries that the masks leave out, of all layers together."""
    rest = [np.where(mask, -1.0, m).ravel() for mask, m in zip(masks, matrices, strict=True)]
    chosen = top_mask(np.concatenate(rest), count)
    ends = np.cumsum([len(part) for part in rest])[:-1]
    for mask, part in zip(masks, np.split(chosen, ends), strict=True):
        mask |= part.reshape(mask.shape)


def _with_dropped(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the rows that stay, then the others."""
    return np.concatenate([rows, np.setdiff1d(np.arange(count), rows)])
