"""Row orders for vectors and tiles: quality at fixed steps, planted clusters, escapes, legality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
import permsearch.testing as pt
from permsearch.published.tilewise import tile_wise
from permsearch.solvers.kmeans import KMeans
from permsearch.solvers.shuffle import Shuffle
from tests import reference_vector, strategies


def planted(groups: int, v: int, columns: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scores of shuffled rows whose groups have strong columns of their own, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(groups * v) // v)
    scales = rng.lognormal(0.0, 0.3, (groups, columns))
    return np.abs(rng.standard_normal((groups * v, columns))) * scales[labels], labels


@pytest.mark.parametrize("text", ["vector:16@0.25", "vector:16@0.25/group", "tile:16@0.25"])
def test_planted_clusters_are_found(text: str) -> None:
    """Shuffled rows come back together, and keep what the planted order keeps."""
    scores, labels = planted(8, 16, 512, seed=1)
    pattern = ps.parse_pattern(text)
    result = ps.search(scores, pattern, solver="shuffle", stop=ps.MaxSteps(8000))
    best = pattern.retained(scores[np.argsort(labels, kind="stable")])
    assert result.score >= best * (1 - 1e-9)
    groups = labels[result.solution["rows"]].reshape(8, 16)
    if text.startswith("vector"):
        assert (groups == groups[:, :1]).all()


@pytest.mark.parametrize(
    ("text", "least"),
    [("vector:32@0.25", 0.301), ("vector:32@0.25/group", 0.300), ("tile:64@0.25+0.01", 0.312)],
)
def test_quality_at_fixed_steps(text: str, least: float) -> None:
    """On noise without structure, a fixed number of steps keeps a fixed share at least."""
    scores = np.abs(ps.instances.gaussian(256, 256, seed=1))
    result = ps.search(scores, text, solver="shuffle", stop=ps.MaxSteps(4000))
    assert result.retained >= least


def test_noise_escapes_where_plain_alternation_is_stuck() -> None:
    """A row's vote for its group's columns makes every dealing of large groups a fixed point."""
    from permsearch.solvers._clusters import Clusters
    from permsearch.solvers._row_groups import row_groups

    scores = np.abs(ps.instances.gaussian(1024, 512, seed=2))
    pattern = ps.parse_pattern("vector:64@0.25/group")
    groups = row_groups(pattern, scores)
    order = np.arange(len(scores))
    state = Clusters(groups.grouping(order), order, np.random.default_rng(0))
    while state.reassign():
        pass
    stuck = groups.value(state.best)
    result = ps.search(scores, pattern, solver=Shuffle(), stop=ps.MaxSteps(1500))
    assert result.score > stuck * 1.005


@pytest.mark.parametrize("text", ["vector:32@0.25", "vector:32@0.25/group"])
def test_better_than_published_clustering(text: str) -> None:
    """On noise and on clusters, from the same seed, K-means keeps less."""
    for scores in (np.abs(ps.instances.gaussian(256, 192, seed=3)), planted(8, 32, 96, seed=4)[0]):
        published = ps.search(scores, text, solver=KMeans())
        ours = ps.search(scores, text, solver="shuffle", stop=ps.MaxSteps(3000))
        assert ours.score >= published.score


@pytest.mark.parametrize("shape", [(96, 16), (40, 240), (130, 64), (32, 3, 3, 3)])
def test_never_below_published_pruning(shape: tuple[int, ...]) -> None:
    """Whatever outputs published pruning drops, even where one tile takes all rows."""
    scores = np.abs(ps.instances.student_t(shape[0], int(np.prod(shape[1:])), seed=5))
    scores = scores.reshape(shape)
    pattern = ps.TileWise(128, 0.25)
    (pruned,) = tile_wise([scores], pattern)
    result = ps.search(scores, pattern, solver="shuffle", stop=ps.MaxSteps(1000))
    assert result.score >= float(scores[pruned.mask].sum(dtype=np.float64)) * (1 - 1e-9)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    v=st.integers(1, 4),
    groups=st.integers(1, 4),
    by_group=st.booleans(),
    steps=st.integers(0, 60),
    data=st.data(),
)
def test_score_is_what_the_slow_twin_counts(
    v: int, groups: int, by_group: bool, steps: int, data: st.DataObject
) -> None:
    """Any scores, any number of steps: legal orders, the twin's value, no less than the start."""
    scores = data.draw(strategies.scores(v * groups, 6))
    pattern = ps.VectorWise(v, 0.4, "group" if by_group else "layer")
    problem = ps.single(scores, pattern)
    result = ps.solve(problem, "shuffle", stop=ps.MaxSteps(steps))
    pt.check_result(result, problem)
    assert result.steps <= steps
    rows = result.solution.get("rows", np.arange(len(scores)))
    expected = reference_vector.retained_vectors(scores[rows], v, 0.4, by_group=by_group)
    assert result.score == pytest.approx(expected, rel=1e-9, abs=0)


def test_time_is_repeated_by_its_steps() -> None:
    """A run limited in seconds and one of as many steps end in the same orders."""
    scores = np.abs(ps.instances.gaussian(128, 96, seed=6))
    for text in ("vector:16@0.25", "tile:48@0.25+0.02"):
        timed = ps.search(scores, text, solver="shuffle", stop=ps.MaxSeconds(0.2))
        again = ps.search(scores, text, solver="shuffle", stop=ps.MaxSteps(timed.steps))
        assert np.array_equal(timed.solution["rows"], again.solution["rows"])
        assert again.steps == timed.steps


def test_scale_changes_nothing() -> None:
    """Scores of 1e-30 or 1e30 times the size lead to the same order."""
    scores = np.abs(ps.instances.gaussian(64, 48, seed=7)).astype(np.float64)
    orders = [
        ps.search(scores * 2.0**k, "vector:16@0.25", stop=ps.MaxSteps(500)).solution["rows"]
        for k in (-100, 0, 100)
    ]
    assert all(np.array_equal(order, orders[0]) for order in orders)


def test_a_column_of_outliers_does_not_blind_the_search() -> None:
    """One entry a thousand times the others leaves the rest as it was to the search."""
    scores, labels = planted(4, 16, 256, seed=8)
    scores[0, 0] = 1000 * scores.mean()
    pattern = ps.parse_pattern("vector:16@0.25")
    best = pattern.retained(scores[np.argsort(labels, kind="stable")])
    result = ps.search(scores, pattern, solver="shuffle", stop=ps.MaxSteps(4000))
    assert result.score >= best * (1 - 1e-9)


def test_options_out_of_range_are_told() -> None:
    """Noise that rises, a tail of everything, and a guide that is too strict."""
    with pytest.raises(ValueError, match="cold <= hot"):
        Shuffle(hot=0.1, cold=0.2)
    with pytest.raises(ValueError, match="tail"):
        Shuffle(tail=1.0)
    with pytest.raises(ValueError, match="guide"):
        KMeans(guide=0.5)
