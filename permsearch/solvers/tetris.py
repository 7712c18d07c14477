"""The published search for blocks: TETRIS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from permsearch.patterns import Block
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.solvers.run import Budget, Step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tetris(MatrixSolver):
    """TETRIS: choose the best blocks, then swap rows or columns while that gains, and again.

    For the blocks that stay now, the pair of items whose swap gains most changes places, until no
    swap gains; then the blocks are chosen anew. The axes take turns until neither gains. A step
    is the swaps of one axis for one choice of blocks, 4096 at most.

    References
    ----------
    Ji, Liang, Deng, Zhang, Zhang, Xie: TETRIS: TilE-matching the TRemendous Irregular Sparsity,
    NeurIPS 2018. Shares other than one half and blocks that are not square are our addition.
    """

    patterns: ClassVar[tuple[type, ...]] = (Block,)

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        from permsearch.solvers._axis_annealing import free_axes
        from permsearch.solvers._block_search import axes_of, greedy_turns

        del budget
        state = axes_of(part, order, rng)
        for value, ended in greedy_turns(state, free_axes(part)):
            yield Step(1, part.join(*state.orders), value, converged=ended)
