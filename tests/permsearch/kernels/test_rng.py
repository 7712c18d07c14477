"""The kernels' random numbers."""

from __future__ import annotations

import numpy as np

from permsearch.kernels.rng import below, next_bits, seeded, unit


def splitmix64(state: int) -> tuple[int, int]:
    """Return the next state and output, in plain integers."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def test_bits_are_splitmix64() -> None:
    """The stream equals the published generator's."""
    state, plain = seeded(12345), 12345
    for _ in range(100):
        plain, bits = splitmix64(plain)
        assert int(next_bits(state)) == bits


def test_any_integer_is_a_seed() -> None:
    """Negative and huge seeds work and differ."""
    firsts = {int(next_bits(seeded(seed))) for seed in (-1, 0, 1, 2**64 + 2, 2**80 + 3)}
    assert len(firsts) == 5


def test_draws_stay_in_range_and_fill_it() -> None:
    """Every value below n turns up about equally often; units lie in [0, 1)."""
    state = seeded(7)
    counts = np.bincount([below(state, 7) for _ in range(7000)], minlength=7)
    assert counts.size == 7
    assert abs(counts - 1000).max() < 200
    units = np.array([unit(state) for _ in range(1000)])
    assert ((units >= 0) & (units < 1)).all()
    assert abs(units.mean() - 0.5) < 0.05
