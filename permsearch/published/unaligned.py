"""The published kind of rule for unaligned blocks: greedy."""

from __future__ import annotations

import numpy as np

from permsearch.layout import taps_as_columns, weight_from_columns
from permsearch.patterns.base import Mask, Scores
from permsearch.patterns.unaligned import UnalignedBlock


def greedy_mask(scores: Scores, pattern: UnalignedBlock) -> Mask:
    """Return the mask of blocks taken from heavy to light, those left out that overlap one taken.

    Of equal blocks the one of the lower row and column comes first. The number of blocks is the
    pattern's unless fewer fit into the gaps.

    References
    ----------
    Lee, Shin: Toward Efficient Inference with Unaligned Block-wise Pruning, arXiv 2407.19644
    (2024), whose own rule is a fast approximation of this one.
    """
    from permsearch.kernels.unaligned_greedy import take_in_turn

    pattern.check(scores.shape)
    matrix = taps_as_columns(scores)
    last = matrix.shape[1] - pattern.size + 1
    worth = np.full(matrix.shape, -1.0)
    worth[:, :last] = sum(
        matrix[:, shift : shift + last].astype(np.float64) for shift in range(pattern.size)
    )
    ranked = np.argsort(-worth, axis=None, kind="stable")[: len(matrix) * last]
    mask, starts = np.zeros(matrix.shape, np.bool_), np.zeros(matrix.shape, np.bool_)
    take_in_turn(ranked, pattern.size, pattern.count(scores.shape), mask, starts)
    return weight_from_columns(mask, scores.shape)
