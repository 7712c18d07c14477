"""Bounds of patterns of vectors, blocks and tiles: no order exceeds them, by any method."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch as ps
from permsearch.limits.effort import CHEAP, MOST_GROUPS, Effort
from permsearch.limits.terms import term_limit
from permsearch.stop import MaxSeconds

# Patterns, and the sizes of the groups of rows and columns inside which no order matters.
PATTERNS = {
    "vector:2@0.5": (2, 4),
    "vector:2@0.5/group": (2, 4),
    "block:2x2@0.5": (2, 2),
    "block:2x1@0.3": (2, 1),
    "tile:2@0.5": (1, 4),
    "tile:2@0.4+0.1": (1, 4),
    "transposable:1:2": (2, 2),
    "unaligned:2@0.5": (4, 1),
    "2:2:4": (2, 4),
    "hinm:2@0.5:1:2": (2, 4),
    "1:2": (4, 2),
}


def hard(kind: str, shape: tuple[int, int], seed: int) -> NDArray[Any]:
    """Return a small matrix that is hard on bounds."""
    rng = np.random.default_rng(seed)
    normal = np.abs(rng.standard_normal(shape))
    if kind == "ties":
        return rng.integers(0, 3, shape).astype(np.float32)
    if kind == "zeros":
        return (normal * (rng.random(shape) < 0.3)).astype(np.float32)
    if kind == "equal columns":
        return np.repeat(normal[:, :1], shape[1], axis=1)
    if kind == "scales":
        return normal * np.exp(4 * rng.standard_normal(shape[1]))
    return normal


def orders(free: bool, size: int) -> list[tuple[int, ...]]:
    """Return orders of four items, one for every way to group them by a size."""
    if not free:
        return [tuple(range(4))]
    if size == 1:
        return [*itertools.permutations(range(4))]
    return [
        order
        for order in itertools.permutations(range(4))
        if all(order[i] < order[i + 1] for i in range(3) if (i + 1) % size)
        and list(order[::size]) == sorted(order[::size])
    ]


def best_order(problem: ps.Problem, sizes: tuple[int, int]) -> float:
    """Return the most that any orders of all axes retain, by trying them all."""
    term = problem.terms[0]
    free = ["rows" in term.pattern.axes, "cols" in term.pattern.axes]
    return max(
        term.pattern.retained(term.scores[list(rows)][:, list(cols)])
        for rows in orders(free[0], sizes[0])
        for cols in orders(free[1], sizes[1])
    )


def methods(problem: ps.Problem) -> dict[str, ps.Bound]:
    """Return the bound of every method that applies."""
    found = {}
    for method in ("row", "pair", "spectral", "partition", "matching", "auto"):
        with suppress(ps.UnsupportedProblem):
            found[method] = ps.bound(problem, method)
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=6)
@given(
    st.sampled_from(["plain", "ties", "zeros", "equal columns", "scales"]),
    st.sampled_from([1.0, 1e-6, 1e6]),
    st.integers(0, 2**31),
)
def test_no_order_exceeds_the_bound(pattern: str, kind: str, scale: float, seed: int) -> None:
    """Every method's bound is at least the best of all orders, and says its kind and slack."""
    problem = ps.single(hard(kind, (4, 4), seed) * scale, pattern)
    best = best_order(problem, PATTERNS[pattern])
    found = methods(problem)
    assert {"row", "auto"} <= set(found)
    for limit in found.values():
        assert limit.value >= best
        assert 0 <= limit.slack <= 1e-3 * limit.value + 1e-30
    assert found["auto"].value <= found["row"].value * (1 + 1e-9)


def test_methods_go_from_loose_to_tight() -> None:
    """Singular values beat sorting, a list of all groups beats both, and only it is tight."""
    problem = ps.single(ps.instances.gaussian(12, 24, seed=1), "vector:4@0.25")
    spectral, partition = ps.bound(problem, "spectral"), ps.bound(problem, "partition")
    assert (spectral.kind, partition.kind) == ("spectral", "partition")
    assert partition.tight
    assert not spectral.tight
    sorted_only = term_limit(problem, problem.terms[0], Effort(0, 0))
    assert partition.value < spectral.value < sorted_only.value
    assert ps.bound(problem).value == partition.value
    assert (
        ps.search(ps.instances.gaussian(12, 24, seed=1), "vector:4@0.25").score <= partition.value
    )


def test_time_decides_how_much_is_tried() -> None:
    """Without time the cheap limit stays; what a search tells is the cheap one too."""
    problem = ps.single(ps.instances.gaussian(12, 24, seed=1), "vector:4@0.25")
    none = ps.bound(problem, stop=MaxSeconds(0))
    assert none.value == term_limit(problem, problem.terms[0], CHEAP).value
    assert none.value > ps.bound(problem, stop=MaxSeconds(60)).value
    assert Effort.within(60, 24).groups == MOST_GROUPS
    assert Effort.within(1e-4, 4096).side < CHEAP.side


def test_methods_that_do_not_apply_are_refused() -> None:
    """A named method that gives no limit is refused with the pattern and the way out."""
    large = ps.single(ps.instances.gaussian(64, 8), "vector:8@0.25")
    with pytest.raises(ps.UnsupportedProblem, match=r"no partition bound for the pattern vector:8"):
        ps.bound(large, "partition")
    with pytest.raises(ps.UnsupportedProblem, match="no spectral bound for variable 'cols'"):
        ps.bound(ps.single(ps.instances.gaussian(8, 8), "2:4"), "spectral")


def test_pieces_and_terms_add_up() -> None:
    """N:M columns and clustered rows of one problem are bounded each by its own kind."""
    rng = np.random.default_rng(2)
    terms = (
        ps.Term(rng.random((16, 16)), "2:4", cols="a"),
        ps.Term(rng.random((12, 8)), "vector:4@0.25", rows="b"),
    )
    problem = ps.Problem({"a": ps.Free(16), "b": ps.Free(12)}, terms)
    parts = [
        ps.bound(ps.Problem({"a": ps.Free(16)}, terms[:1])),
        ps.bound(ps.Problem({"b": ps.Free(12)}, terms[1:])),
    ]
    whole = ps.bound(problem)
    assert whole.kind == "partition"
    assert whole.value == pytest.approx(sum(part.value for part in parts), rel=1e-12)
    assert whole.slack == pytest.approx(sum(part.slack for part in parts), rel=1e-6)
    assert whole.certificate is None  # a list of groups is not kept


def test_slack_is_what_the_proof_gives_away() -> None:
    """Narrowing to float32 widens the slack; the limit without it still covers the optimum."""
    weight = np.abs(ps.instances.gaussian(16, 16, seed=3)).astype(np.float32)
    narrow = ps.bound(ps.single(weight, "2:4"), "partition")
    wide = ps.bound(ps.single(weight.astype(np.float64), "2:4"), "partition")
    assert narrow.slack < 1e-10 * narrow.value
    assert 1e-8 * wide.value < wide.slack < 1e-6 * wide.value
    best = ps.solve(ps.single(weight, "2:4"), "exhaustive").score
    assert wide.value - wide.slack >= best * (1 - 1e-12)
    result = ps.search(weight, "2:4")
    assert 0 <= result.bound_slack <= 1e-6 * result.bound
