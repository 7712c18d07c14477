"""New values for the weights that stay, so that a layer's outputs change least. No training.

Matrices are (rows, features) as `pruning.statistics.Inputs` counts them, H is a block's Gram
matrix; the error of new weights V is tr((W - V) H (W - V)^T), the mean squared change of the
outputs over the calibration rows, summed over output channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from pruning.curvature import damped, upper_of_inverse
from pruning.layers import as_matrix, from_matrix
from pruning.statistics import Inputs

#: Entries of the matrices that are solved at a time.
_ENTRIES = 1 << 24


def output_error(weight: torch.Tensor, new: torch.Tensor, inputs: Inputs) -> float:
    """Return the mean squared change of a layer's outputs, summed over channels, in float64."""
    change = as_matrix((weight.detach().double() - new.detach().double()), inputs.axis)
    parts = zip(change.chunk(inputs.blocks), inputs.grams(), strict=True)
    return sum(float(((part @ gram) * part).sum()) for part, gram in parts)


@torch.no_grad()
def refit(
    weight: torch.Tensor, mask: torch.Tensor, inputs: Inputs, damping: float = 0.01
) -> torch.Tensor:
    """Return the weight whose kept entries are those of least output error.

    Least squares of each row on the inputs that it keeps. Rows of the same mask share one
    factorization, different ones are solved in batches.

    Parameters
    ----------
    mask
        Boolean, true = kept, of the weight's shape.
    damping
        As in `pruning.curvature.damped`; it draws towards the values as they were.

    Returns
    -------
    torch.Tensor
        In the weight's type, exactly zero where dropped.
    """
    return _by_blocks(weight, inputs, damping, _fitted, mask)


def _by_blocks(
    weight: torch.Tensor,
    inputs: Inputs,
    damping: float,
    solve: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    mask: torch.Tensor,
) -> torch.Tensor:
    matrix = as_matrix(weight.detach().double(), inputs.axis)
    kept = as_matrix(mask, inputs.axis)
    parts = zip(inputs.grams(), matrix.chunk(inputs.blocks), kept.chunk(inputs.blocks), strict=True)
    done = [solve(damped(gram, damping, inputs.name).matrix, p, k) for gram, p, k in parts]
    found = from_matrix(torch.cat(done), weight.shape, inputs.axis).to(weight.dtype)
    return torch.where(mask, found, found.new_zeros(()))


def _fitted(gram: torch.Tensor, matrix: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return the rows of least error; all of them with the same support are solved together."""
    wanted = matrix @ gram
    supports, member = torch.unique(kept, dim=0, return_inverse=True)
    ends = torch.bincount(member).cumsum(0)[:-1].cpu()
    rows_of = torch.argsort(member, stable=True).tensor_split(ends)
    found = torch.zeros_like(matrix)
    if len(supports) * 4 < len(matrix):
        for support, rows in zip(supports, rows_of, strict=True):
            index = support.nonzero()[:, 0]
            factor = torch.linalg.cholesky(gram[index][:, index])
            solved = torch.cholesky_solve(wanted[rows][:, index].T, factor)
            found[rows[:, None], index] = solved.T
        return found
    for part in _batches(kept):
        found[part] = _solved(gram, wanted[part], kept[part])
    return found


def _batches(kept: torch.Tensor) -> Iterator[slice]:
    width = int(kept.sum(1).max())
    size = max(1, _ENTRIES // max(1, width * width))
    for start in range(0, len(kept), size):
        yield slice(start, start + size)


def _solved(gram: torch.Tensor, wanted: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Solve a batch of rows with supports of their own, smaller ones filled up with identity."""
    count = kept.sum(1)
    width = int(count.max())
    index = torch.argsort(~kept, dim=1, stable=True)[:, :width]
    real = torch.arange(width, device=kept.device) < count[:, None]
    system = gram[index[:, :, None], index[:, None, :]]
    both = real[:, :, None] & real[:, None, :]
    system = torch.where(both, system, torch.eye(width, dtype=gram.dtype, device=gram.device))
    right = torch.where(real, wanted.gather(1, index), 0.0)
    solved = torch.cholesky_solve(right[..., None], torch.linalg.cholesky(system))[..., 0]
    return torch.zeros_like(wanted).scatter_(1, index, solved * real)


@torch.no_grad()
def compensate(
    weight: torch.Tensor,
    mask: torch.Tensor,
    inputs: Inputs,
    *,
    damping: float = 0.01,
    order: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return a masked weight whose later columns made up for the earlier ones' zeros.

    The sweep of SparseGPT (Frantar & Alistarh, ICML 2023) for a mask that is given.

    Parameters
    ----------
    order
        The sweep's order of the features; as stored without it.
    """

    features = weight.numel() // weight.shape[1 - inputs.axis]
    places = torch.arange(features) if order is None else order

    def solve(gram: torch.Tensor, part: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return swept(gram, part, places, lambda at, _: kept[:, places[at : at + 1]])[0]

    return _by_blocks(weight, inputs, damping, solve, mask)


@torch.no_grad()
def sparsegpt(
    weight: torch.Tensor,
    inputs: Inputs,
    n: int,
    m: int,
    *,
    damping: float = 0.01,
    cols: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a weight with N:M sparsity and its mask, chosen group by group on the way.

    SparseGPT (Frantar & Alistarh, ICML 2023), sweeping in the order of the columns that the
    groups are made in: with H permuted alike it runs on permuted weights as it stands.

    Parameters
    ----------
    cols
        Position -> input channel; groups are m consecutive positions, at each tap.

    Returns
    -------
    weight, mask
        In the layout that came in.
    """
    matrix = as_matrix(weight.detach().double(), inputs.axis)
    order = feature_order(weight.shape[inputs.axis], matrix.shape[1], cols)
    done, kept = [], []
    for gram, part in zip(inputs.grams(), matrix.chunk(inputs.blocks), strict=True):
        solid = damped(gram, damping, inputs.name).matrix
        values, mask = swept(solid, part, order, _best_of_group(n), step=m)
        done.append(values)
        kept.append(mask)
    mask = from_matrix(torch.cat(kept), weight.shape, inputs.axis)
    found = from_matrix(torch.cat(done), weight.shape, inputs.axis).to(weight.dtype)
    return torch.where(mask, found, found.new_zeros(())), mask


def feature_order(channels: int, features: int, cols: torch.Tensor | None = None) -> torch.Tensor:
    """Return the features tap after tap, the channels of each in the order given."""
    taps = features // channels
    one = torch.arange(channels) if cols is None else torch.as_tensor(cols)
    return (one[None, :] * taps + torch.arange(taps)[:, None]).reshape(-1)


_Choose = Callable[[int, torch.Tensor], torch.Tensor]


def _best_of_group(n: int) -> _Choose:
    def choose(_: int, losses: torch.Tensor) -> torch.Tensor:
        top = torch.argsort(losses, dim=1, descending=True, stable=True)[:, :n]
        return torch.zeros_like(losses, dtype=torch.bool).scatter_(1, top, value=True)

    return choose


def swept(
    gram: torch.Tensor,
    matrix: torch.Tensor,
    order: torch.Tensor | None,
    choose: _Choose,
    *,
    step: int = 1,
    block: int = 128,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Zero columns one after another, pushing each error to the columns that are still to come.

    Parameters
    ----------
    gram
        Positive definite, (features, features).
    choose
        (first position of a group of `step`, losses of its columns) to what is kept of it.
    block
        Columns whose errors reach the rest of the matrix in one product.

    Returns
    -------
    matrix, mask
        In the order that came in.
    """
    features = matrix.shape[1]
    order = torch.arange(features) if order is None else order
    upper = upper_of_inverse(gram[order][:, order])
    prices = upper.diagonal().square()
    values, kept = matrix[:, order].clone(), torch.ones_like(matrix, dtype=torch.bool)
    block = -(-block // step) * step
    for first in range(0, features, block):
        last = min(first + block, features)
        errors = torch.zeros_like(values[:, first:last])
        for at in range(first, last):
            if at % step == 0:
                group = slice(at, min(at + step, features))
                kept[:, group] = choose(at, values[:, group].square() / prices[group])
            error = torch.where(kept[:, at], 0.0, values[:, at]) / upper[at, at]
            values[:, at:last] -= error[:, None] * upper[at, at:last]
            errors[:, at - first] = error
        values[:, last:] -= errors @ upper[first:last, last:]
    back = torch.argsort(order)
    return (values * kept)[:, back], kept[:, back]
