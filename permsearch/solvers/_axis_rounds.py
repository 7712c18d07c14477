"""How `blocks` and `transposable` split a budget: into ever longer, complete annealings.

The split follows from the number of steps alone, so that a run limited in time is repeated by its
steps: a round is done while it leaves at least seven times its own length, then comes all the rest.
The split of `shuffle` differs: see `permsearch.solvers._shuffle_rounds`.
"""

from __future__ import annotations

from collections.abc import Iterator

from permsearch.solvers.run import Budget

_GROWTH = 4
_LEAVES = 7  # times its own length


def round_lengths(budget: Budget, default: int, first: int) -> Iterator[tuple[int, bool]]:
    """Yield the steps of each round and whether it is the last.

    The caller does the steps before it asks for the next length: where time is limited, the
    speed of a round tells how many steps still fit. At least one round is done.

    Parameters
    ----------
    budget
        What the part may spend; its `done` is not used.
    default
        Steps where neither steps nor time are limited.
    first
        Steps of the first round.
    """
    size, done, least, rate = first, 0, 1, 0.0
    while True:
        left = _left(budget, default - done, rate)
        if left is not None and left < (_LEAVES + 1) * size:
            last = max(least, left) if budget.timed else left
            if last > 0 and budget.steps != 0:
                yield last, True
            return
        begun = budget.used()
        yield size, False
        rate = size / max(budget.used() - begun, 1e-9)
        done += size
        least = _LEAVES * size
        size *= _GROWTH


def _left(budget: Budget, default: int, rate: float) -> int | None:
    """Return how many steps fit; None while neither their number nor their speed is known."""
    steps, seconds = budget.steps, budget.seconds
    if seconds is None:
        return default if steps is None else steps
    fits = None if rate == 0 else int(rate * seconds)
    known = [limit for limit in (steps, fits) if limit is not None]
    return min(known) if known else None
