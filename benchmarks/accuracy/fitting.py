"""Masks of one layer in an order of rows and columns."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy.orders import LayerOrder
from permsearch.patterns import Pattern


def masked(scores: Tensor, order: LayerOrder, pattern: Pattern) -> Tensor:
    """Return the best mask in an order, in the layout of the scores."""
    place = np.ix_(order.rows, order.cols)
    mask = np.empty(scores.shape, bool)
    mask[place] = pattern.keep(np.ascontiguousarray(scores.numpy()[place]))
    return torch.from_numpy(mask)
