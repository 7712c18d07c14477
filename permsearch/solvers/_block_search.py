"""What TETRIS and annealing share on weights whose best blocks stay.

Imported only where it runs, since it loads the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from permsearch.patterns import Block, UnalignedBlock
from permsearch.solvers._axis_annealing import AxisAnnealing
from permsearch.solvers._block_axes import BlockAxes
from permsearch.solvers.matrices import MatrixPart
from permsearch.solvers.run import Step

I64 = NDArray[np.int64]

_SWAPS = 4096  # in a turn, at most
_EXACT = 6  # pairs of exact steps at the end, at most


def axes_of(part: MatrixPart, order: I64, rng: np.random.Generator) -> BlockAxes:
    """Return the state of a search that starts from an order of a part."""
    pattern = part.pattern
    assert isinstance(pattern, Block | UnalignedBlock)
    sizes = pattern.shape if isinstance(pattern, Block) else (1, pattern.size)
    rows, cols = part.split(order.copy())
    return BlockAxes(part.scores, sizes, pattern.count(part.scores.shape), (rows, cols), rng)


def greedy_turns(state: BlockAxes, axes: tuple[int, ...]) -> Iterator[tuple[float, bool]]:
    """Do TETRIS's swaps of one axis after the other; yield the values, and whether none gained.

    After every turn, of 4096 swaps at most, the blocks that stay are chosen anew.
    """
    best, idle, turn = state.look(axes[0]), 0, 0
    while idle < len(axes):
        if state.swap_greedily(axes[turn % len(axes)], _SWAPS) < _SWAPS:
            turn += 1
        value = state.look(axes[turn % len(axes)])
        idle = 0 if value > best * (1 + 1e-6) else idle + 1
        best = max(best, value)
        yield value, idle >= len(axes)


def take_turns(search: AxisAnnealing, state: BlockAxes, most: int) -> Iterator[Step]:
    """Do TETRIS's turns from the best order, no more than so many; each is a step."""
    search.restore(state)
    for value, _ in islice(greedy_turns(state, search.axes), most):
        search.note(state, value)
        yield Step(1, search.best, search.value, planned=True)


def improve(search: AxisAnnealing, state: BlockAxes) -> None:
    """Improve the best orders by exact assignments on either axis."""
    search.restore(state)
    for _ in range(_EXACT):
        before = search.value
        for axis in search.axes:
            state.look(axis)
            state.assign(axis)
            search.note(state, state.look(axis))
        if search.value <= before * (1 + 1e-7):
            break
