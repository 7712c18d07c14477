"""Gyro permutation: the published search, without the faults of its code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import permsearch as ps
from permsearch.problem import Problem, Term
from permsearch.solvers._gyro_search import RowPhase
from permsearch.solvers.gyro import Gyro
from permsearch.solvers.matrices import MatrixPart
from tests import reference_hinm as reference


def phase(kept: float, seed: int = 1) -> tuple[RowPhase, np.ndarray]:
    """Return the phase of rows on a Gaussian weight, and its scaled scores."""
    weight = np.abs(ps.instances.gaussian(32, 20, seed=seed))
    part = MatrixPart.of(ps.single(weight, f"hinm:8@{kept}:2:4"), 0)
    return RowPhase(part, np.arange(52), np.random.default_rng(seed)), part.scores


@pytest.mark.parametrize("kept", [0.2, 0.4, 0.6, 0.8])
def test_the_price_of_a_tile_is_right_at_any_share(kept: float) -> None:
    """Vectors that are dropped count, not as many as are kept: those are the same at 1/2 only."""
    rows, scores = phase(kept)
    count = round(kept * 20)
    for size in (1, 2, 4):
        for _ in range(4):
            before = rows.value
            gained = rows.attempt(size)
            tiles = [scores[own] for own in rows.rows]
            held = sum(tile[:, reference.strongest(tile, count)].sum() for tile in tiles)
            assert rows.value == pytest.approx(held, rel=1e-5)
            assert rows.value > before if gained else rows.value == before
    assert sorted(rows.rows.ravel()) == list(range(32))


def test_every_sample_is_drawn_anew() -> None:
    """Attempts of the same size try other rows each time."""
    rows, _ = phase(0.5)
    found = set()
    for _ in range(20):
        rows.attempt(4)
        found.add(rows.rows.tobytes())
    assert len(found) > 2


def test_it_ends_by_itself_with_the_best_it_saw() -> None:
    """The score is that of the mask returned, not of the last attempt, which was rejected."""
    weight = np.abs(ps.instances.gaussian(64, 32, seed=2))
    result = ps.search(weight, "hinm:16@0.5:2:4", solver="gyro")
    assert result.status is ps.Status.STOPPED
    assert result.score == pytest.approx(float(weight[result.mask].sum(dtype=float)), rel=1e-9)
    assert result.score > result.baseline * 1.02
    longer = ps.search(weight, "hinm:16@0.5:2:4", solver=Gyro(failures=30))
    assert longer.score > result.score


def test_of_equal_vectors_the_first_stay() -> None:
    """Ties keep the lower index, and never the smallest vectors."""
    weight = np.ones((8, 12), np.float32)
    weight[:, [3, 7]] = 2
    part = MatrixPart.of(ps.single(weight, "hinm:8@0.5:2:4"), 0)
    rows = RowPhase(part, np.arange(20), np.random.default_rng(0))
    (tile,) = rows.tiles()
    assert tile.groups.tolist() == [[0, 1, 3, 7]]


def test_every_weight_has_orders_of_its_own() -> None:
    """Two weights in one problem do not share an order that only one of them is good for."""
    terms = tuple(
        Term(np.abs(ps.instances.gaussian(32, 16, seed=k)), "hinm:8@0.5:2:4", f"r{k}", name=f"w{k}")
        for k in range(2)
    )
    problem = Problem({"r0": ps.Free(32), "r1": ps.Free(32)}, terms)
    result = ps.solve(problem, "gyro")
    assert not np.array_equal(result.solution["r0"], result.solution["r1"])
    assert not np.array_equal(result.tiles[0], result.tiles[1])
    for k in range(2):
        assert terms[k].retained(result.solution, result.tiles[k]) > terms[k].retained({})


def test_small_tiles_skip_the_sizes_they_have_not() -> None:
    """Tiles of two rows give up single rows only."""
    weight = np.abs(ps.instances.gaussian(8, 16, seed=3))
    assert ps.search(weight, "hinm:2@0.5:2:4", solver="gyro").score > 0


@pytest.mark.parametrize("failures", [0, 1.5, "many"])
def test_options_that_make_no_sense_are_refused(failures: Any) -> None:
    """At least one failure ends a size."""
    with pytest.raises(ValueError, match="failures must be"):
        Gyro(failures)
