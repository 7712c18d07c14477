"""Optimal brain compression of a layer: weights go one by one, each time the cheapest.

(Frantar & Alistarh, "Optimal Brain Compression", NeurIPS 2022, the greedy solver ExactOBS.)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from permsearch.errors import PatternError
from pruning.curvature import Solid
from pruning.curvature import solid as solid_of
from pruning.errors import StateError
from pruning.statistics import Inputs
from pruning.sweep import feature_order
from pruning.update import joined, parts_of, under

#: Entries of the inverse matrices that are worked on at a time: 16 MiB, which caches hold.
_ENTRIES = 1 << 21
#: Updates of entries that are allowed: some minutes on one core.
MOST_WORK = 1 << 40


@torch.no_grad()
def obc(
    weight: torch.Tensor,
    inputs: Inputs,
    n: int,
    m: int,
    *,
    damping: float = 0.01,
    cols: torch.Tensor | None = None,
    solid: Solid | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight with N:M sparsity and its mask, the kept weights refitted exactly.

    Each row on its own drops the weight whose loss raises its output error least, w^2 / (H^-1)_jj,
    adjusts all others, and takes it out of H^-1; groups that are down to n are closed. The values
    left are those of least squares on the mask, so `refit` changes nothing any more.

    The work is rows * dropped * features^2, far more than SparseGPT's: for small layers.

    Parameters
    ----------
    n, m
        Kept of every m consecutive positions.
    damping
        As in `pruning.curvature.damped`.
    cols
        Position -> input channel; groups are m consecutive positions, at each tap.
    solid
        As for `pruning.update.refit`.

    Returns
    -------
    weight, mask
        In the layout that came in.

    Raises
    ------
    StateError
        The layer is too large, with its work and the limit.
    """
    parts = parts_of(weight, inputs)
    features = parts[0].shape[1]
    check_work((weight.shape[1 - inputs.axis], features), n, m, inputs.name)
    order = feature_order(weight.shape[inputs.axis], features, cols)
    if features % m:
        raise PatternError(f"{inputs.name}: {features} columns are no groups of {m}.")
    solid = solid_of(inputs, damping) if solid is None else solid
    back = torch.argsort(order)
    found = [
        removed(one.inverse[order][:, order], part[:, order], n, m)
        for one, part in zip(solid, parts, strict=True)
    ]
    mask = joined([kept[:, back] for _, kept in found], weight, inputs)
    return under(mask, joined([values[:, back] for values, _ in found], weight, inputs)), mask


def check_work(shape: tuple[int, ...], n: int, m: int, name: str) -> None:
    """Refuse a matrix (rows, features) that would take hours.

    Raises
    ------
    StateError
        With the work and the limit.
    """
    rows, features = shape
    work = rows * features**3 * (m - n) // m
    if work > MOST_WORK:
        raise StateError(
            f"{name}: OBC of {rows} rows of {features} inputs takes {work:.1e} operations, and "
            f'{MOST_WORK:.1e} are the limit; take method = "sparsegpt+refit" for it.'
        )


def removed(
    inverse: torch.Tensor, matrix: torch.Tensor, n: int, m: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows after dropping all but n of every m columns, and what was kept.

    Parameters
    ----------
    inverse
        H^-1, positive definite, (features, features).
    matrix
        (rows, features).
    """
    values, kept = matrix.clone(), torch.ones_like(matrix, dtype=torch.bool)
    for part in _batches(len(matrix), matrix.shape[1]):
        _remove_(
            inverse.expand(part.stop - part.start, -1, -1).clone(), values[part], kept[part], n, m
        )
    return values * kept, kept


def _batches(rows: int, features: int) -> Iterator[slice]:
    size = max(1, _ENTRIES // max(1, features * features))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _remove_(
    inverse: torch.Tensor, values: torch.Tensor, kept: torch.Tensor, n: int, m: int
) -> None:
    """Drop weights of some rows in place, one of each row at a time."""
    rows, features = values.shape
    every = torch.arange(rows, device=values.device)
    left = torch.full((rows, features // m), m - n, device=values.device)
    for _ in range(features // m * (m - n)):
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        closed = ~kept | (left == 0).repeat_interleave(m, 1)
        losses = (values.square() / diagonal).masked_fill_(closed, torch.inf)
        worst = losses.argmin(1)
        column = inverse[every, worst]
        pivot = column.gather(1, worst[:, None])
        values -= column * (values.gather(1, worst[:, None]) / pivot)
        inverse.baddbmm_(column[:, :, None], (column / pivot)[:, None, :], alpha=-1)
        inverse[every, worst, worst] = 1.0  # its row and column are zero from now on
        values[every, worst] = 0.0
        kept[every, worst] = False
        left[every, worst // m] -= 1
