"""Rows of least error on what each of them keeps, by whichever way is quickest.

For a row w with Gram matrix H, kept columns k: the v of least (w - v)^T H (w - v) that is zero
elsewhere. Few supports share one factorization each. Few kept columns are solved in batches. Many
rows with wide supports of their own take conjugate gradients, all of them at once: a step is two
products with square matrices, where a factorization is the cube of what a row keeps, for each row.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from pruning.curvature import Damped

#: What conjugate gradients may leave of each row's (damped) error above the least there is.
TOLERANCE = 1e-5
#: Where that is of no account: a share of the row's output energy that float32 cannot hold.
_NOTHING = 1e-14
#: Entries of the matrices that are solved at a time.
_ENTRIES = 1 << 24
#: Kept columns cubed, over all columns squared, from which conjugate gradients are quicker.
WIDE = 12.0
#: Steps in float32, and how often they start again from a residual in float64.
_STEPS, _ROUNDS = 100, 4


def least_squares(
    solid: Damped,
    matrix: torch.Tensor,
    kept: torch.Tensor,
    start: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the rows of least error, in float64 and exactly zero where nothing is kept.

    Parameters
    ----------
    matrix, kept
        (rows, features); float64, and boolean with true = kept.
    start
        Values that conjugate gradients start from; the matrix without it.
    """
    supports, member = torch.unique(kept, dim=0, return_inverse=True)
    if len(supports) * 4 < len(matrix):
        return _shared(solid, matrix, supports, member)
    width = int(kept.sum(1).max())
    if width**3 < WIDE * matrix.shape[1] ** 2:
        return direct(solid, matrix, kept)
    found, done = descended(solid, matrix, kept, matrix if start is None else start)
    if not bool(done.all()):
        left = ~done
        found[left] = direct(solid, matrix[left], kept[left])
    return found


def _shared(
    solid: Damped, matrix: torch.Tensor, supports: torch.Tensor, member: torch.Tensor
) -> torch.Tensor:
    """Solve the rows of each support together."""
    wanted, found = matrix @ solid.matrix, torch.zeros_like(matrix)
    ends = torch.bincount(member).cumsum(0)[:-1].cpu()
    rows_of = torch.argsort(member, stable=True).tensor_split(ends)
    for support, rows in zip(supports, rows_of, strict=True):
        index = support.nonzero()[:, 0]
        factor = torch.linalg.cholesky(solid.matrix[index][:, index])
        solved = torch.cholesky_solve(wanted[rows][:, index].T, factor)
        found[rows[:, None], index] = solved.T
    return found


def direct(solid: Damped, matrix: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Solve rows with supports of their own by a factorization for each, in batches."""
    wanted, found = matrix @ solid.matrix, torch.zeros_like(matrix)
    for part in _batches(kept):
        found[part] = _solved(solid.matrix, wanted[part], kept[part])
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


def descended(
    solid: Damped, matrix: torch.Tensor, kept: torch.Tensor, start: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows after conjugate gradients, and which of them are as good as the least.

    (Hestenes & Stiefel 1952, preconditioned by H^-1 cut down to what a row keeps.) With r the
    residual of a row, what its error has above the least is r^T (H_kk)^-1 r, and that is at most
    r^T (H^-1)_kk r, which every step computes anyway: so rows stop by a bound, not by a guess.
    Steps are in float32; each round starts from a residual in float64, and so does the verdict.
    """
    gram, inverse = solid.matrix, solid.inverse
    small, price = gram.float(), inverse.float()
    value, nothing = start * kept, _NOTHING * ((matrix @ gram) * matrix).sum(1)
    for attempt in range(_ROUNDS):
        gap = matrix - value
        ahead = gap @ gram
        error, rest = (ahead * gap).sum(1), ahead * kept
        above = ((rest @ inverse) * rest).sum(1)
        limit = (TOLERANCE * (error - above).clamp_min(0)).maximum(nothing)
        done = above <= limit
        if bool(done.all()) or attempt == _ROUNDS - 1:
            break
        rows = (~done).nonzero()[:, 0]
        value[rows] += _steps(small, price, rest[rows], kept[rows], error[rows], nothing[rows])
    return value, done


def _steps(
    gram: torch.Tensor,
    price: torch.Tensor,
    rest: torch.Tensor,
    kept: torch.Tensor,
    error: torch.Tensor,
    nothing: torch.Tensor,
) -> torch.Tensor:
    """Return what conjugate gradients add to rows of some residuals and errors.

    Each step lowers a row's error by its length times the residual's size, so that the least error
    is known well enough on the way to stop by it.
    """
    scale = rest.norm(dim=1).clamp_min(_TINY)  # residuals of all sizes fit into float32
    rest = (rest / scale[:, None]).float()
    error, nothing = ((each / scale.square()).float() for each in (error, nothing))
    kept = kept.float()
    value = torch.zeros_like(rest)
    ready = rest @ price * kept
    way, size = ready, (rest * ready).sum(1)
    for _ in range(_STEPS):
        ahead = way @ gram * kept
        step = (size / (way * ahead).sum(1).clamp_min(_TINY))[:, None]
        value.addcmul_(step, way)
        error = error - step[:, 0] * size
        rest = rest.addcmul(step, ahead, value=-1)
        ready, old = rest @ price * kept, size
        size = (rest * ready).sum(1)
        if bool((size <= (TOLERANCE / 4 * (error - size)).maximum(nothing)).all()):
            break
        way = ready.addcmul((size / old.clamp_min(_TINY))[:, None], way)
    found: torch.Tensor = value.double() * scale[:, None]
    return found


_TINY = 1e-30
