"""Pairing is optimal, for any weights; what is built on it keeps its promises."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import permsearch.testing as pt
from permsearch import instances
from permsearch.result import Status
from permsearch.solve import single
from permsearch.solvers import matching
from permsearch.solvers._pairing import best_pairing, pair_up
from permsearch.solvers.matching import Matching, matched
from permsearch.solvers.swap import Swap


def total(values: NDArray[Any], pairs: NDArray[np.int64]) -> float:
    """Return the summed value of a pairing."""
    return float(values[pairs[:, 0], pairs[:, 1]].sum(dtype=np.float64))


def optimum(values: NDArray[Any]) -> float:
    """Return the value of the best perfect pairing by networkx, on integer weights."""
    whole = np.rint(values * 2.0**30).astype(int)
    graph = nx.Graph()
    count = len(values)
    graph.add_weighted_edges_from(
        (a, b, int(whole[a, b])) for a, b in itertools.combinations(range(count), 2)
    )
    found = nx.max_weight_matching(graph, maxcardinality=True)
    return total(values, np.array(list(found)))


def symmetric(rng: np.random.Generator, count: int, levels: int) -> NDArray[np.float64]:
    """Return a random symmetric matrix with entries in steps of 1 / levels."""
    values = rng.integers(0, levels, (count, count)) / levels
    return np.maximum(values, values.T)


@pytest.mark.parametrize("shift", [0.0, -4.0])
def test_cheapest_pairing_by_negation(shift: float) -> None:
    """Costs 1, 3, 6, 3 on a ring: the cheapest pairing costs 6, also with 4 taken off each cost.

    Turning costs into gains by reciprocals would pick the pairing that costs 7
    (networkx/networkx#5388).
    """
    edges = np.array([[0, 1], [2, 3], [1, 2], [3, 0]])
    costs = np.array([1.0, 6.0, 3.0, 3.0]) + shift
    assert pair_up(4, edges, -costs).tolist() == [[0, 3], [1, 2]]


def test_a_common_offset_costs_no_precision() -> None:
    """Weights that differ in the ninth digit of a large common offset are told apart."""
    edges = np.array(list(itertools.combinations(range(4), 2)))
    weight = 1e9 + np.array([0.0, 1.0, 0.0, 0.0, 1.5, 0.0])
    assert pair_up(4, edges, weight).tolist() == [[0, 2], [1, 3]]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    half=st.integers(1, 15),
    levels=st.sampled_from([1, 2, 5, 10**6]),
)
def test_pairing_is_optimal(seed: int, half: int, levels: int) -> None:
    """The pairing equals networkx's optimum on random, tied and constant weights."""
    values = symmetric(np.random.default_rng(seed), 2 * half, levels)
    pairs = best_pairing(values, np.arange(2 * half).reshape(-1, 2), exact=True)
    assert sorted(pairs.ravel()) == list(range(2 * half))
    assert total(values, pairs) == pytest.approx(optimum(values), abs=1e-7)


@pytest.mark.parametrize("scaled", [False, True])
def test_sparse_candidates_suffice(scaled: bool) -> None:
    """With sixty items and few candidates each, column scales or not, the optimum is found."""
    make = instances.lognormal_columns if scaled else instances.gaussian
    columns = np.abs(make(40, 60, seed=4).T).astype(np.float64)
    columns /= columns.max()
    values = np.maximum(columns[:, None], columns).sum(axis=2)
    pairs = best_pairing(values, np.arange(60).reshape(-1, 2), exact=True)
    assert total(values, pairs) == pytest.approx(optimum(values), rel=1e-8)


def test_odd_cycles_are_closed() -> None:
    """Where assignment prefers two triangles, the best pairing across them is found."""
    values = np.zeros((6, 6))
    for triangle in ([0, 1, 2], [3, 4, 5]):
        for a, b in itertools.combinations(triangle, 2):
            values[a, b] = values[b, a] = 1.0
    values[2, 3] = values[3, 2] = 0.25
    pairs = best_pairing(values, np.arange(6).reshape(-1, 2), exact=True)
    assert total(values, pairs) == pytest.approx(2.25)


def test_one_two_is_proven_optimal() -> None:
    """1:2 ends with status optimal at networkx's optimum, and the bound is met."""
    weight = instances.gaussian(20, 40, seed=5)
    result = Matching().solve(single(weight, "1:2"))
    columns = np.abs(weight.T).astype(np.float64)
    best = optimum(np.maximum(columns[:, None], columns).sum(axis=2) / 64) * 64
    assert result.status is Status.OPTIMAL
    assert result.score == pytest.approx(best, rel=1e-7)
    assert result.gap == 0


def test_not_worse_than_swaps_on_scaled_columns() -> None:
    """Columns of very different scale, the weak spot of sparse candidates, are paired well."""
    problem = single(instances.lognormal_columns(128, 128, seed=6), "2:4")
    assert Matching().solve(problem).score >= Swap(kicks=0).solve(problem).score


@pytest.mark.parametrize("pattern", ["1:2", "2:4", "3:4", "4:8", "3:6", "1:16"])
def test_power_of_two_scale_changes_no_order(pattern: str) -> None:
    """Scaling the scores by 2**20 or 2**-20 leaves the order as it is."""
    weight = instances.student_t(9, 48, seed=7)
    plain = Matching().solve(single(weight, pattern), seed=1)
    for exponent in (20, -20):
        scaled = Matching().solve(single(np.ldexp(weight, exponent), pattern), seed=1)
        np.testing.assert_array_equal(plain.cols, scaled.cols)


def test_joining_halves_never_loses() -> None:
    """Matching the halves of groups anew keeps at least what they kept."""
    rng = np.random.default_rng(8)
    columns = rng.random((24, 10), dtype=np.float32)
    halves = rng.permutation(24).reshape(-1, 3)
    joined = matched(columns, halves, 2)

    def kept(groups: NDArray[np.int64]) -> float:
        return float(np.sort(columns[groups].astype(np.float64), axis=1)[:, -2:].sum())

    assert kept(joined) >= kept(halves.reshape(-1, 6)) - 1e-5


def test_blocks_keep_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """More parts than are matched at once are dealt into blocks, none lost; no proof is claimed."""
    monkeypatch.setattr(matching, "_MOST_PARTS", 10)
    result = Matching().solve(single(instances.gaussian(6, 44, seed=9), "1:2"))
    assert sorted(result.cols) == list(range(44))
    assert result.status is not Status.OPTIMAL
    assert result.score > result.baseline


def test_odd_groups_are_refused_with_a_way_out() -> None:
    """Groups of three have no halves; the reason names a solver that works."""
    reason = Matching().supports(single(np.ones((2, 6), np.float32), "1:3"))
    assert reason is not None
    assert "swap" in reason


def test_negative_rounds_are_refused() -> None:
    """The error names the value."""
    with pytest.raises(ValueError, match="-1"):
        Matching(-1)


@pytest.mark.parametrize("name", pt.tiny_problems())
def test_conformance(name: str) -> None:
    """The solver keeps every promise of the protocol on every tiny problem."""
    pt.check_solver(Matching(), pt.tiny_problems()[name])
