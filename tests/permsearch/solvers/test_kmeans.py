"""Shfl-BW's K-means: clusters are balanced and found, and it ends by itself."""

from __future__ import annotations

import numpy as np
import pytest

import permsearch as ps
from permsearch.solvers.kmeans import KMeans, clustered


def test_rows_of_one_pattern_come_together() -> None:
    """Rows that are large in the same columns are one group each."""
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.arange(48) // 8)
    large = rng.random((6, 64)) < 0.25
    scores = np.where(large[labels], 1.0, 0.1) + 0.01 * rng.random((48, 64))
    results = [ps.search(scores, "vector:8@0.25", solver="kmeans", seed=seed) for seed in range(4)]
    best = max(results, key=lambda result: result.score)
    groups = labels[best.solution["rows"]].reshape(6, 8)
    assert (groups == groups[:, :1]).all()


def test_it_ends_when_nothing_moves() -> None:
    """Without a criterion it converges, or hits its hundred steps; never below the start."""
    scores = np.abs(ps.instances.gaussian(64, 48, seed=2))
    result = ps.search(scores, "vector:8@0.25/group", solver=KMeans())
    assert 0 < result.steps <= 100
    assert result.score >= result.baseline


@pytest.mark.parametrize("fill", [False, True])
def test_rows_that_are_all_alike_are_clustered(fill: bool) -> None:
    """An empty or a full guide has no distances to draw centres by."""
    found = next(clustered(np.full((12, 5), fill), 3, np.random.default_rng(0)))
    assert sorted(found) == list(range(12))


def test_it_refuses_other_patterns() -> None:
    """N:M has no groups of rows."""
    with pytest.raises(ps.UnsupportedProblem, match="2:4"):
        ps.search(np.ones((8, 8)), "2:4", solver="kmeans")
