"""Shfl-BW's own search for row groups: balanced K-means on an unstructured guide mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from permsearch.checks import check_number
from permsearch.layout import taps_as_columns
from permsearch.patterns import VectorWise
from permsearch.patterns.share import share_of
from permsearch.patterns.top import top_mask
from permsearch.solvers.matrices import MatrixPart, MatrixSolver
from permsearch.solvers.run import Budget, Step
from permsearch.stop import MaxSteps, StoppingCriterion

_DEFAULT_STEPS = 100


@dataclass(frozen=True, slots=True)
class KMeans(MatrixSolver):
    """Group rows whose largest entries stand in the same places: the published Shfl-BW.

    An unstructured mask is the guide. Its rows are clustered by Lloyd's algorithm with an exact
    balanced assignment, from random rows far from each other as the first centres; the pattern
    then keeps the best vectors of the groups found. A step is one assignment; the search ends
    when nothing moves, or after 100 steps.

    Parameters
    ----------
    guide
        Entries that the guide keeps for each one that the pattern keeps, >= 1; the guide never
        keeps more than three quarters of the weight (where the pattern does not itself).

    Notes
    -----
    The released code has no search, and how loose the guide is was not at hand. The pattern's own
    share and these first centres are our choice: of 1, 2 and 3 times the share, and of random
    rows, random groups and the given ones, they kept most on trained weights.

    References
    ----------
    Huang, Li, Wang, et al.: Shfl-BW: accelerating deep neural network inference with tensor-core
    aware weight pruning, DAC 2022, arXiv 2203.05016.
    Arthur, Vassilvitskii: k-means++: the advantages of careful seeding, SODA 2007.
    """

    guide: float = 1.0

    patterns: ClassVar[tuple[type, ...]] = (VectorWise,)

    def __post_init__(self) -> None:
        check_number("guide", self.guide)
        if not 1 <= self.guide < np.inf:
            raise ValueError(f"guide must be at least 1, got {self.guide}.")

    @property
    def default_stop(self) -> StoppingCriterion:
        """Run for 100 steps."""
        return MaxSteps(_DEFAULT_STEPS)

    def _run(
        self,
        part: MatrixPart,
        order: NDArray[np.int64],
        rng: np.random.Generator,
        budget: Budget,
    ) -> Iterator[Step]:
        pattern = part.pattern
        assert isinstance(pattern, VectorWise)
        cols = part.split(order)[1]
        matrix = taps_as_columns(part.scores)
        share = max(pattern.kept, min(0.75, self.guide * pattern.kept))
        guide = top_mask(matrix, share_of(share, matrix.size))
        before = None
        for found in clustered(guide, pattern.v, rng):
            if budget.steps == 0:
                return
            same = before is not None and np.array_equal(found, before)
            yield Step(1, part.join(found, cols), converged=same)
            if same:
                return
            before = found


def clustered(
    guide: NDArray[np.bool_], v: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield orders of the rows of a mask by cluster, after each assignment to the centres.

    Parameters
    ----------
    guide
        bool (R, C).
    v
        Rows of a cluster, a divisor of R.
    """
    from permsearch.kernels.transport import transport

    points = guide.astype(_kind(guide, v))
    groups = len(points) // v
    centres, scale = points[_seeds(points, groups, rng)], 1
    prices = np.zeros(groups)
    while True:
        # all whole numbers: the same on any number of threads
        norms = np.einsum("gc,gc->g", centres, centres, dtype=np.float64)
        labels = transport(2.0 * scale * (points @ centres.T) - norms, v, prices)
        found = np.argsort(labels, kind="stable")
        yield found
        # sums of the members, `v` times their mean: distances are measured in v-ths
        centres, scale = points[found].reshape(groups, v, -1).sum(axis=1), v


def _seeds(guide: NDArray[Any], count: int, rng: np.random.Generator) -> list[int]:
    """Return rows of which each was drawn with the square of its distance to those before."""
    norms = np.einsum("rc,rc->r", guide, guide, dtype=np.float64)
    seeds = [int(rng.integers(len(guide)))]
    distance = np.full(len(guide), np.inf)
    while len(seeds) < count:
        last = seeds[-1]
        distance = np.minimum(distance, norms + norms[last] - 2.0 * (guide @ guide[last]))
        total = float(distance.sum())
        # all others are the same as one before: any will do
        weights = distance / total if total > 0 else None
        seeds.append(int(rng.choice(len(guide), p=weights)))
    return seeds


def _kind(matrix: NDArray[Any], v: int) -> type[np.floating[Any]]:
    """Return the float in which sums of products of guide and centres are exact."""
    return np.float32 if v * matrix.shape[1] < 1 << 24 else np.float64
