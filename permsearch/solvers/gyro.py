"""Gyro permutation: the published search for hierarchical N:M."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from permsearch.checks import keep_whole
from permsearch.patterns import HiNM
from permsearch.solvers.base import Budget, Step
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.stop import Never, StoppingCriterion

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SCHEDULE = (8, 1, 4, 1, 2, 1, 1)  # rows that a tile gives up, as published


@dataclass(frozen=True, slots=True)
class Gyro(MatrixSolver):
    """Exchange rows in clusters, then each tile's columns one by one: published for HiNM.

    Rows, if they are free: for each size of a schedule every tile gives up so many random rows;
    more than one are clustered by balanced K-means on their scores; an exact assignment brings
    clusters to the tiles that are left, priced by what the best vectors hold then; what does not
    gain is undone, and the next size follows after some such failures. Columns: every tile gives
    up one random vector of each of its groups and takes them back by an exact assignment, until
    it has failed as often.

    A step is one such attempt; in the second phase one in every tile that goes on.

    Parameters
    ----------
    failures
        Attempts without a gain after which a size, or a tile, is done: 1 to 3 in the published
        code.

    Notes
    -----
    Corrected from the published code: the price of a tile counts the vectors that it drops, not
    as many as it keeps (the same only where it keeps half); of equal vectors the first stay, not
    the smallest; every sample is drawn anew; the best orders are returned, not the last rejected
    ones; each weight has its own order. Where a tile has no more rows than a size, it is skipped.

    References
    ----------
    Yu et al.: Toward efficient permutation for hierarchical N:M sparsity on GPUs,
    arXiv 2407.20496, and its code.
    """

    failures: int = 3

    patterns: ClassVar[tuple[type, ...]] = (HiNM,)
    warm_steps: ClassVar[int] = 200

    def __post_init__(self) -> None:
        keep_whole(self, "failures", "failures", 1)

    @property
    def default_stop(self) -> StoppingCriterion:
        """It ends by itself."""
        return Never()

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        import numpy as np

        from permsearch.solvers._gyro_search import RowPhase, gains

        pattern = part.pattern
        assert isinstance(pattern, HiNM)
        phase = RowPhase(part, order, rng)
        cols = part.split(order)[1]
        sizes = [size for size in _SCHEDULE if size < pattern.v] if "rows" in part.free else []
        for size in sizes:
            failed = 0
            while failed < self.failures:
                gained = phase.attempt(size)
                failed += not gained
                # what is the same as before need not be valued again
                yield Step(1, part.join(phase.rows.ravel(), cols), None if gained else 0.0)
        order = part.join(phase.rows.ravel(), cols)
        tiles = list(phase.tiles())
        left = [self.failures] * len(tiles)
        while any(left):
            for t, tile in enumerate(tiles):
                if left[t] and not gains(tile, pattern.n):
                    left[t] -= 1
            value = float(sum(tile.values[1] for tile in tiles))
            orders = np.stack([tile.best.ravel() for tile in tiles])
            yield Step(1, order, value, tiles=orders)
