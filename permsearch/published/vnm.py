"""The cheap mask of V:N:M: the four columns of the largest norm in every block."""

from __future__ import annotations

import numpy as np

from permsearch.layout import weight_from_taps
from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.vnm import LIVE, VNM, tap_rows


def norm_rule(scores: Scores, pattern: VNM) -> Mask:
    """Return the V:N:M mask whose live columns are those of the largest sum in their block.

    Later work on V:N:M uses this rule instead of trying all sets of columns; it is not optimal.
    Sums are float64, of equal columns the lower index stays, and blocks are cut from the matrix
    of each tap, not from flattened rows. Each row keeps the best two of the live columns.

    Parameters
    ----------
    scores
        Shape (out, in, *k), >= 0.
    pattern
        Its blocks cover the weight.

    References
    ----------
    Castro et al.: VENOM, SC 2023 (the pattern, with masks found by trying all sets).
    """
    from permsearch.kernels.vnm import mark_two

    pattern.check(scores.shape)
    rows = tap_rows(scores)
    shape = (-1, pattern.v, rows.shape[1])
    sums = rows.reshape(shape).sum(axis=1, dtype=np.float64).reshape(-1, pattern.m)
    live = np.sort(np.argsort(-sums, axis=1, kind="stable")[:, :LIVE], axis=1)
    live = live.reshape(len(rows) // pattern.v, -1, LIVE).astype(np.int64)
    live += pattern.m * np.arange(live.shape[1])[:, None]
    mask = np.zeros(rows.shape, dtype=np.bool_)
    mark_two(rows, pattern.v, live, mask)
    return weight_from_taps(mask, scores.shape)
