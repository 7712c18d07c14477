"""A small random number generator for kernels: splitmix64, one 64-bit counter of state.

Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). A kernel that draws
from a one-element state array leaves it where the next sweep goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def seeded(seed: int) -> NDArray[np.uint64]:
    """Return the state for a seed; any integer will do."""
    return np.array([seed % 2**64], dtype=np.uint64)


@njit(cache=True, nogil=True)
def next_bits(state):
    """Return the next 64 random bits."""
    state[0] += _STEP
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def below(state, n):
    """Return a random int64 in 0 .. n-1 (n < 2**32)."""
    return np.int64(((next_bits(state) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def unit(state):
    """Return a random float64 in [0, 1)."""
    return np.float64(next_bits(state) >> np.uint64(11)) * (1.0 / (1 << 53))
