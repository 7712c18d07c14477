"""Lists of groups: their exact values, and the smoothed dual of set partitioning over them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from permsearch.kernels.value import group_value

_FLAT = 30.0  # beyond so many temperatures softplus is its own limit


@njit(cache=True, nogil=True, fastmath={"contract", "arcp", "nsz", "reassoc"})
def _two_of_four(a: Any, b: Any, c: Any, d: Any) -> float:
    total = 0.0
    for r in range(a.shape[0]):
        x, y, z, w = np.float64(a[r]), np.float64(b[r]), np.float64(c[r]), np.float64(d[r])
        p = x + y
        q = z + w
        s = p if p > q else q
        h = (x if x > y else y) + (z if z > w else w)
        total += s if s > h else h
    return total


@njit(cache=True, nogil=True)
def values_of(columns: Any, groups: Any, n: int, out: Any) -> None:
    """Fill ``out`` (float64) with the value of each row of ``groups`` (K, m)."""
    fast = n == 2 and groups.shape[1] == 4
    for k in range(groups.shape[0]):
        g = groups[k]
        if fast:
            out[k] = _two_of_four(columns[g[0]], columns[g[1]], columns[g[2]], columns[g[3]])
        else:
            out[k] = group_value(columns, g, n)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _sum_max(a: Any, b: Any) -> float:
    total = 0.0
    for r in range(a.shape[0]):
        total += a[r] if a[r] > b[r] else b[r]
    return total


@njit(cache=True, nogil=True)
def pair_values(columns: Any, out: Any) -> None:
    """Fill ``out`` (float64, symmetric) with what every pair of float64 columns keeps of 1:2."""
    for i in range(columns.shape[0]):
        for j in range(i):
            out[i, j] = out[j, i] = _sum_max(columns[i], columns[j])
        out[i, i] = 0.0


@njit(cache=True, nogil=True)
def reduced(values: Any, groups: Any, duals: Any, out: Any) -> None:
    """Fill ``out`` with each group's value less the duals of its columns."""
    for k in range(groups.shape[0]):
        s = values[k]
        for i in range(groups.shape[1]):
            s -= duals[groups[k, i]]
        out[k] = s


@njit(cache=True, nogil=True)
def smoothed(
    values: Any, groups: Any, duals: Any, heat: float, gradient: Any, hessian: Any
) -> float:
    """Return ``sum(duals) + heat * sum softplus(reduced / heat)`` with both derivatives.

    ``gradient`` (C,) and ``hessian`` (C, C) are overwritten; an empty ``hessian`` is left out.
    """
    m = groups.shape[1]
    curved = hessian.shape[0] > 0
    gradient[:] = 1.0
    hessian[:] = 0.0
    total = 0.0
    for c in range(duals.shape[0]):
        total += duals[c]
    for k in range(groups.shape[0]):
        z = values[k]
        for i in range(m):
            z -= duals[groups[k, i]]
        z /= heat
        if z < -_FLAT:
            continue
        e = np.exp(-abs(z))
        share = 1.0 / (1.0 + e) if z > 0 else e / (1.0 + e)
        total += heat * (max(z, 0.0) + np.log1p(e))
        bend = e / (1.0 + e) ** 2 / heat
        for i in range(m):
            c = groups[k, i]
            gradient[c] -= share
            if curved:
                for j in range(i + 1):
                    hessian[c, groups[k, j]] += bend
    return float(total)


@njit(cache=True, nogil=True)
def leaders(groups: Any, count: int, places: int, keep: Any) -> None:
    """Mark each group that is among the first ``places`` of the list with one of its columns."""
    seen = np.zeros(count, np.int64)
    for k in range(groups.shape[0]):
        keep[k] = False
        for i in range(groups.shape[1]):
            c = groups[k, i]
            if seen[c] < places:
                keep[k] = True
            seen[c] += 1
