"""Masks and new values of one layer, from the project's own functions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy.orders import LayerOrder
from permsearch.patterns import Pattern
from pruning.curvature import damped
from pruning.statistics import Inputs


def refit(
    weight: Tensor,
    mask: Tensor,
    inputs: Inputs,
    damping: float = 0.01,
    start: Tensor | None = None,
) -> Tensor:
    """Return what `pruning.update.refit` returns, by conjugate gradients for all rows at once.

    (Hestenes & Stiefel 1952.) Two products with square matrices for each step serve all rows, where
    a factorization for each row costs the cube of what it keeps. The preconditioner is the inverse
    of the whole Gram matrix, cut down to what the row keeps. Steps go on until every row's residual
    is 0.003 of what it is for the weights as they were; the error is then exact to about 1e-5.

    Parameters
    ----------
    start
        Values to start from, of a sweep with this mask; the weights as they were without it.
    """
    (gram,) = inputs.grams()
    solid = damped(gram, damping, inputs.name).matrix
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(solid)).float()
    solid, kept, wide = solid.float(), mask.float(), weight.float()
    rest = (wide - wide * kept) @ solid * kept
    goal = 3e-3 * rest.norm(dim=1)
    value = wide * kept
    if start is not None:
        value = start.float() * kept
        rest = (wide - value) @ solid * kept
    ready = rest @ inverse * kept
    way, size = ready, (rest * ready).sum(1)
    for _ in range(weight.shape[1]):
        ahead = way @ solid * kept
        step = (size / (way * ahead).sum(1).clamp_min(_TINY))[:, None]
        value.addcmul_(step, way)
        rest = rest.addcmul(step, ahead, value=-1)
        if bool((rest.norm(dim=1) <= goal).all()):
            break
        ready, old = rest @ inverse * kept, size
        size = (rest * ready).sum(1)
        way = ready.addcmul((size / old.clamp_min(_TINY))[:, None], way)
    return torch.where(mask, value.to(weight.dtype), 0.0)


_TINY = 1e-30


def masked(scores: Tensor, order: LayerOrder, pattern: Pattern) -> Tensor:
    """Return the best mask in an order, in the layout of the scores."""
    place = np.ix_(order.rows, order.cols)
    mask = np.empty(scores.shape, bool)
    mask[place] = pattern.keep(np.ascontiguousarray(scores.numpy()[place]))
    return torch.from_numpy(mask)
