"""Columns as bytes: one step for all columns, chosen so that rounding and clipping hurt least."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from permsearch.kernels.sad import padded_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TOP = 255
_MOST_SUM = 1 << 26  # of a column's levels: what the assignment kernel takes; 263,000 rows of 255
_SAMPLE = 1 << 14
_CANDIDATES = 16
_FINEST = 1024  # the clip is at least this part of the maximum


@njit(cache=True, nogil=True)
def round_levels(columns, scale, top, levels):
    """Fill ``levels`` with min(columns * scale, top), rounded; the last two are float32."""
    for c in range(columns.shape[0]):
        source, target = columns[c], levels[c]
        for r in range(source.shape[0]):
            x = source[r] * scale + np.float32(0.5)
            target[r] = np.uint8(x if x < top else top)


def quantise(columns: NDArray[np.float32], n: int, m: int) -> tuple[NDArray[np.uint8], float]:
    """Return the columns in steps of one level, and the value of a level.

    Returns
    -------
    levels : uint8 array, shape (C, R rounded up), zero-padded
    step : float
        ``levels * step`` approximates the columns; larger entries are clipped to the top level,
        which is 255, or less beyond 263,000 rows.
    """
    clip = _clip(columns, n, m)
    top = min(_TOP, max(1, _MOST_SUM // columns.shape[1]))
    step = clip / top if clip > 0 else 1.0
    levels = padded_bytes(*columns.shape)
    round_levels(columns, np.float32(1 / step), np.float32(top), levels)
    return levels, step


def _clip(columns: NDArray[np.float32], n: int, m: int) -> float:
    """Return the value above which clipping starts.

    A clipped entry does no harm while at most n of a group are clipped, for then it is kept
    anyway. So a clip far below the maximum, with a finer step, is worth it: minimise the rounding
    error of a group's sum plus the expected loss of wrong choices among clipped entries. A good
    order spreads the large columns, so the k-th largest entry of a group is taken to come from
    the k-th m-tile of the columns by mass.
    """
    rows = columns.shape[1]
    stride = min(max(1, columns.size // _SAMPLE), rows)
    return clip_of(columns[:, ::stride], columns.sum(axis=1), n, m, rows)


def clip_of(
    sample: NDArray[np.float32], mass: NDArray[np.floating[Any]], n: int, m: int, rows: int
) -> float:
    """Return the clip for columns of which a sample and the order of their sums are known.

    Parameters
    ----------
    sample : float array, shape (C, S)
        Some entries of each column.
    mass : float array, shape (C,)
        The columns' sums, up to a common factor.
    rows : int
        Number of entries of a column.
    """
    by_mass = np.argsort(-mass, kind="stable")
    sample = sample[by_mass].reshape(m, -1)
    peak = float(sample.max())
    if peak <= 0:
        return 0.0
    tail = np.sort(sample, axis=None)[::-1]
    ranks = np.unique(np.geomspace(1, tail.size // 4 + 1, _CANDIDATES).astype(int)) - 1
    clips = [float(q) for q in tail[ranks] if q >= peak / _FINEST]
    return min(clips, key=lambda q: _harm(sample, q, n, rows))


def _harm(sample: NDArray[np.float32], clip: float, n: int, rows: int) -> float:
    """Return the expected error of a group's kept sum, for a clip."""
    over = sample > clip
    share = over.mean(axis=1)
    counts = np.zeros(len(share) + 1)
    counts[0] = 1.0
    for p in share:  # distribution of the number of clipped entries in one row of a group
        counts[1:] = counts[1:] * (1 - p) + counts[:-1] * p
        counts[0] *= 1 - p
    excess = float((sample[over] - clip).mean()) if over.any() else 0.0
    rounding = clip / _TOP * math.sqrt(rows * n / 12)
    return rounding + rows * float(counts[n + 1 :].sum()) * excess
