"""Annealing by swaps on 8-bit columns, for any N:M: best where groups are few or large.

A proposal swaps two random columns of different groups and is priced by two sums of absolute
differences, one per hole (see `permsearch.kernels.holes`). Only an accepted swap changes the
holes, those of two groups. Values count half levels, as in `permsearch.kernels.anneal`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from permsearch.kernels.holes import hole_from_levels, two_levels
from permsearch.kernels.rng import below, unit
from permsearch.kernels.sad import sad_pair

_HOPELESS = 20.0  # losses of more than 20 temperatures are never accepted


@njit(cache=True, nogil=True)
def _mass(row):
    s = np.int64(0)
    for r in range(row.shape[0]):
        s += np.int64(row[r])
    return s


@njit(cache=True, nogil=True)
def _refresh(levels, order, shape, g, holes, above, scratch):
    """Fill the holes of group g; ``above`` plus mass and difference is the value of a filling."""
    n, m = shape
    top, carry = scratch
    members = order[g * m : (g + 1) * m]
    kept = np.int64(two_levels(levels, members, n, top, carry))
    for i in range(m):
        hole = holes[g * m + i]
        s = np.int64(hole_from_levels(levels[members[i]], top[n - 1], top[n], hole))
        above[g * m + i] = 2 * (kept - s) + _mass(hole)


@njit(cache=True, nogil=True)
def swap_state(levels, order, n, m):
    """Return what `swap_anneal_sweep` carries from sweep to sweep.

    Returns
    -------
    holes : uint8 array (C, R)
    above, mass : int64 arrays (C,)
    current : int64 array (C / m,)
        Twice the value of every group, in levels.
    counts : int64 array (2,)
        Twice the value of the current order and of the best one.
    """
    columns, width = levels.shape
    holes = np.empty((columns, width), np.uint8)
    above = np.empty(columns, np.int64)
    mass = np.empty(columns, np.int64)
    current = np.empty(columns // m, np.int64)
    scratch = (np.empty((n + 1, width), np.uint8), np.empty(width, np.uint8))
    for c in range(columns):
        mass[c] = _mass(levels[c])
    for g in range(columns // m):
        _refresh(levels, order, (n, m), g, holes, above, scratch)
        c = order[g * m]
        current[g] = above[g * m] + mass[c] + sad_pair(holes, g * m, levels, c)
    counts = np.full(2, current.sum())
    return holes, above, mass, current, counts


@njit(cache=True, nogil=True)
def _accepts(loss, temperature, rng):
    if loss <= 0:
        return True
    if loss > _HOPELESS * temperature:
        return False
    return unit(rng) < math.exp(-loss / temperature)


@njit(cache=True, nogil=True)
def swap_anneal_sweep(levels, shape, temperatures, order, best, state, rng):
    """Propose as many swaps as there are columns, at each temperature in turn.

    Parameters
    ----------
    levels : uint8 array (C, R)
    shape : tuple
        n and m.
    temperatures : float64 array (K,)
        In half levels; at 0 only swaps that do not lose are accepted.
    order, best : int64 arrays (C,)
        Current and best order; updated.
    state : tuple
        From `swap_state`; updated.
    rng : uint64 array (1,)
        State of the generator; updated.
    """
    n, m = shape
    holes, above, mass, current, counts = state
    columns, width = levels.shape
    scratch = (np.empty((n + 1, width), np.uint8), np.empty(width, np.uint8))
    for temperature in temperatures:
        for _ in range(columns):
            p, q = below(rng, columns), below(rng, columns)
            g, h = p // m, q // m
            if g == h:
                continue
            a, b = order[p], order[q]
            value_g = above[p] + mass[b] + sad_pair(holes, p, levels, b)
            value_h = above[q] + mass[a] + sad_pair(holes, q, levels, a)
            gain = value_g + value_h - current[g] - current[h]
            if not _accepts(-gain, temperature, rng):
                continue
            order[p], order[q] = b, a
            current[g], current[h] = value_g, value_h
            counts[0] += gain
            _refresh(levels, order, shape, g, holes, above, scratch)
            _refresh(levels, order, shape, h, holes, above, scratch)
            if counts[0] > counts[1]:
                counts[1] = counts[0]
                best[:] = order
