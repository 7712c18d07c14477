"""Column duals of set partitioning over a pool of groups: Newton's method on a smoothed dual.

With 0 <= x_S <= 1 for every group S the dual of set partitioning is to minimise
``sum u + sum over S of max(0, f(S) - u(S))``, whose value is the limit itself. Smoothing the
maximum at a temperature makes that a smooth function of one number a column, and a few Newton
steps for each temperature follow its minimum down to where the smoothing is negligible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    I64 = NDArray[np.int64]

_STEPS = 30  # Newton steps at one temperature, at most
_CLOSE = 1e-3  # what a step may still promise, in temperatures a column, when they end
_FAR = 5.0  # temperatures that one step may move a dual
_RIDGE = 1e-7
_HALVINGS = 12


def cooled(values: Floats, groups: I64, duals: Floats, heat: float) -> Floats:
    """Return the duals that minimise the smoothed dual of a pool at a temperature, about.

    Parameters
    ----------
    values : float64 array, shape (K,)
    groups : int64 array, shape (K, m), every row sorted
    duals : float64 array, shape (C,)
        Where to start: the solution at a temperature a few times higher.
    heat : float
    """
    from permsearch.kernels.groups import smoothed

    count = len(duals)
    gradient, hessian = np.empty(count), np.empty((count, count))
    for _ in range(_STEPS):
        height = smoothed(values, groups, duals, heat, gradient, hessian)
        step = _direction(hessian, gradient)
        promise = -float(gradient @ step)
        step *= min(1.0, _FAR * heat / max(1e-300, float(np.abs(step).max())))
        moved = _lowered(values, groups, duals, step, heat, height)
        if moved is None:
            break
        duals = moved
        if promise < _CLOSE * heat * count:
            break
    return duals


def _lowered(
    values: Floats, groups: I64, duals: Floats, step: Floats, heat: float, height: float
) -> Floats | None:
    """Return the duals after as much of a step as lowers the smoothed dual, None if none does."""
    from permsearch.kernels.groups import smoothed

    gradient, none = np.empty(len(duals)), np.empty((0, 0))
    for _ in range(_HALVINGS):
        moved = duals + step
        if smoothed(values, groups, moved, heat, gradient, none) < height:
            return moved
        step = step / 2
    return None


def _direction(hessian: Floats, gradient: Floats) -> Floats:
    """Return the Newton step; only the lower triangle of the hessian is read."""
    from scipy.linalg import cho_factor, cho_solve

    diagonal = hessian.diagonal()
    ridge = _RIDGE * float(diagonal.max()) or 1.0
    np.fill_diagonal(hessian, diagonal + ridge)
    return -np.asarray(cho_solve(cho_factor(hessian, lower=True, check_finite=False), gradient))
