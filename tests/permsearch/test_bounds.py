"""No order retains more than a bound says, whatever the matrix, and the bounds are worth having."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from permsearch import bounds
from permsearch._pair_bound import _scale, _weights, pair_limit
from permsearch._pair_degrees import best_duals, dual_limit
from permsearch._pair_majorant import cheapest, factor, knot_count, make_grid, pick_knots
from permsearch.domains import Domain, Fixed, Free, Segments, Units
from permsearch.errors import UnknownName
from permsearch.patterns import NM, Unstructured
from permsearch.problem import Problem, Term, random_solution
from permsearch.stop import MaxSeconds, MaxSteps

Rows = NDArray[np.floating[Any]]

SHAPES = [(8, 2, 4), (8, 1, 4), (8, 3, 4), (6, 2, 3), (9, 1, 3), (8, 1, 2), (10, 2, 5), (12, 2, 6)]


def groupings(items: tuple[int, ...], m: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield every partition of the items into groups of m."""
    if not items:
        yield []
        return
    for rest in itertools.combinations(items[1:], m - 1):
        group = (items[0], *rest)
        left = tuple(item for item in items[1:] if item not in rest)
        for others in groupings(left, m):
            yield [group, *others]


def kept(rows: Rows, n: int, m: int) -> float:
    """Return the exactly rounded sum of the n largest of every m columns, the slow way."""
    groups = np.sort(rows.astype(np.float64).reshape(-1, m), axis=1)
    return math.fsum(groups[:, m - n :].ravel().tolist())


def optimum(rows: Rows, n: int, m: int) -> float:
    """Return the largest value of any grouping of the columns, by trying them all."""
    value: dict[tuple[int, ...], float] = {
        group: kept(rows[:, group], n, m)
        for group in itertools.combinations(range(rows.shape[1]), m)
    }
    partitions = groupings(tuple(range(rows.shape[1])), m)
    return max(math.fsum(value[group] for group in partition) for partition in partitions)


def free(rows: Rows, n: int, m: int) -> Problem:
    """Return the problem of one matrix whose columns move freely."""
    return Problem({"cols": Free(rows.shape[1])}, (Term(rows, NM(n, m), cols="cols"),))


def matrices(count: int) -> dict[str, Rows]:
    """Return small matrices that are hard on bounds, by name."""
    rng = np.random.default_rng(7)
    normal = np.abs(rng.standard_normal((12, count))).astype(np.float32)
    scales = np.logspace(-6, 6, count).astype(np.float32)
    one_hot = np.zeros((count, count), dtype=np.float32)
    np.fill_diagonal(one_hot, 1)
    one_entry = np.zeros((5, count), dtype=np.float32)
    one_entry[2, 1] = 0.75
    return {
        "normal": normal,
        "column scales": normal * scales,
        "row scales": normal * np.logspace(-6, 6, 12).astype(np.float32)[:, None],
        "ties": rng.integers(0, 3, (10, count)).astype(np.float32),
        "binary": rng.integers(0, 2, (16, count)).astype(np.float32),
        "all equal": np.ones((4, count), dtype=np.float32),
        "equal columns": np.repeat(normal[:, :1], count, axis=1),
        "zeros": np.zeros((3, count), dtype=np.float32),
        "one-hot": one_hot,
        "one entry": one_entry,
        "sparse": normal * (rng.random((12, count)) < 0.2),
        "ramp": np.arange(12 * count, dtype=np.float32).reshape(12, count),
        "one row": normal[:1],
        "near ties": (1 + 1e-7 * normal).astype(np.float32),
        "float64": np.abs(rng.standard_normal((12, count))) * 1e-60,
    }


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[1]}:{s[2]} of {s[0]}")
@pytest.mark.parametrize("name", matrices(8))
@pytest.mark.parametrize("method", ["row", "pair"])
def test_bound_covers_the_optimum(shape: tuple[int, int, int], name: str, method: str) -> None:
    """Both kinds of bound are at least the best of all groupings, exactly summed."""
    count, n, m = shape
    rows = matrices(count)[name]
    assert bounds.bound(free(rows, n, m), method).value >= optimum(rows, n, m)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[1]}:{s[2]} of {s[0]}")
@pytest.mark.parametrize("name", sorted(set(matrices(8)) - {"float64"}))
def test_pair_limit_alone_covers_the_optimum(shape: tuple[int, int, int], name: str) -> None:
    """The pairwise limit is valid even where the per-row one hides it."""
    count, n, m = shape
    rows = matrices(count)[name]
    limit = pair_limit(np.ascontiguousarray(rows.T), n, m, knots=7)
    assert limit is None or limit.value * (1 + bounds.ROUNDING) >= optimum(rows, n, m)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(SHAPES),
    st.integers(1, 40),
    st.sampled_from([0.0, 1.0, 8.0]),
    st.floats(0, 0.9),
)
def test_pair_limit_covers_random_optima(
    seed: int, shape: tuple[int, int, int], height: int, spread: float, empty: float
) -> None:
    """The pairwise limit covers the optimum of matrices with scaled columns and many zeros."""
    count, n, m = shape
    rng = np.random.default_rng(seed)
    rows = np.abs(
        rng.standard_normal((height, count)) * np.exp(spread * rng.standard_normal(count))
    )
    rows = (rows * (rng.random(rows.shape) >= empty) / max(1e-9, rows.max())).astype(np.float32)
    limit = pair_limit(np.ascontiguousarray(rows.T), n, m, knots=7)
    assert limit is None or limit.value * (1 + bounds.ROUNDING) >= optimum(rows, n, m)


@settings(max_examples=16)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["row", "pair"]), st.integers(0, 3))
def test_no_legal_order_exceeds_the_bound(seed: int, method: str, kind: int) -> None:
    """The value of any legal order stays below the bound, in every kind of domain."""
    rng = np.random.default_rng(seed)
    domains: list[Domain] = [Free(48), Segments((12, 20, 16)), Segments((10, 38)), Units(16, 3)]
    terms = tuple(
        Term(rng.random((height, 48)).astype(dtype), NM(2, 4), cols="cols")
        for height, dtype in ((5, np.float32), (9, np.float64))
    )
    problem = Problem({"cols": domains[kind]}, terms)
    limit = bounds.bound(problem, method)
    for trial in range(5):
        assert problem.evaluate(random_solution(problem, seed=trial)) <= limit.value


def test_narrow_stack_gives_back_what_rounding_took() -> None:
    """float64 scores that float32 rounds down are still covered."""
    rows = np.full((64, 8), 1 + 2.0**-25)
    limit = bounds.bound(free(rows, 2, 4)).value
    assert limit >= 64 * 4 * (1 + 2.0**-25)
    assert limit <= 64 * 4 * (1 + 1e-6)


def test_planted_optimum_is_proven() -> None:
    """A matrix that fits the pattern perfectly proves its own order optimal."""
    rng = np.random.default_rng(0)
    rows = rng.random((20, 32)) * np.tile([1, 1, 0, 0], 8)
    problem = free(rows, 2, 4)
    limit = bounds.bound(problem)
    assert limit.proves(problem.evaluate(problem.identity()))
    assert not limit.proves(0.999999 * problem.evaluate(problem.identity()))


@pytest.mark.parametrize("exponent", [20, -60])
def test_scaling_by_a_power_of_two_scales_the_bound(exponent: int) -> None:
    """Powers of two change nothing but the exponent of the bound."""
    rows = np.abs(np.random.default_rng(1).standard_normal((40, 64)))
    before = bounds.bound(free(rows, 2, 4)).value
    after = bounds.bound(free(np.ldexp(rows, exponent), 2, 4)).value
    assert after == pytest.approx(math.ldexp(before, exponent), rel=1e-12)


def test_pair_bound_beats_the_row_bound_on_plain_matrices() -> None:
    """For M up to 4 the pairwise limit takes a part off the distance to the start."""
    rows = np.abs(np.random.default_rng(2).standard_normal((128, 120)))
    for n, m in ((1, 2), (1, 3), (2, 4), (1, 4)):
        problem = free(rows, n, m)
        start = problem.evaluate(problem.identity())
        row, pair = bounds.cheap(problem), bounds.bound(problem, "pair")
        assert (row.kind, pair.kind) == ("row", "pair")
        assert pair.value - start < 0.95 * (row.value - start)


def test_one_round_is_a_valid_bound() -> None:
    """A bound that is stopped after its first round holds, and more rounds do not loosen it."""
    rows = np.abs(np.random.default_rng(3).standard_normal((64, 64)))
    problem = free(rows, 2, 4)
    one = bounds.bound(problem, "pair", stop=MaxSteps(1)).value
    assert problem.evaluate(problem.identity()) <= bounds.bound(problem, "pair").value <= one


def test_no_time_leaves_the_row_bound() -> None:
    """Pieces that the time does not reach keep their per-row limit."""
    rows = np.abs(np.random.default_rng(3).standard_normal((64, 64)))
    problem = free(rows, 2, 4)
    assert bounds.bound(problem, stop=MaxSeconds(0)) == bounds.cheap(problem)


def test_segments_are_bounded_one_by_one() -> None:
    """Columns that stay in their segment have a lower bound than free ones."""
    rows = np.abs(np.random.default_rng(4).standard_normal((16, 32)))
    term = Term(rows, NM(2, 4), cols="cols")
    inside = Problem({"cols": Segments((8, 24))}, (term,))
    expected = bounds.row_bound(rows[:, :8], 2, 4) + bounds.row_bound(rows[:, 8:], 2, 4)
    assert bounds.bound(inside, "row").value == pytest.approx(expected, rel=1e-11)
    assert bounds.bound(inside).value < bounds.bound(free(rows, 2, 4), "row").value


@pytest.mark.parametrize(
    "domain", [Fixed(16), Units(4, 4), Units(2, 8), Segments((4,) * 4), Segments((2,) * 8)]
)
def test_value_that_no_order_changes_is_its_own_bound(domain: Domain) -> None:
    """Where groups cannot mix the bound is exact."""
    rows = np.random.default_rng(5).random((8, 16))
    problem = Problem({"cols": domain}, (Term(rows, NM(2, 4), cols="cols"),))
    limit = bounds.bound(problem)
    assert limit.kind == "exact"
    assert limit.value >= problem.evaluate(problem.identity())
    assert limit.proves(problem.evaluate(problem.identity()))


def test_patterns_without_free_axes_are_exact() -> None:
    """Unstructured and N:N masks do not depend on any order."""
    rows = np.random.default_rng(6).random((8, 16))
    for pattern in (Unstructured(0.3), NM(4, 4)):
        problem = Problem({"cols": Free(16)}, (Term(rows, pattern, cols="cols"),))
        limit = bounds.bound(problem)
        assert limit.kind == "exact"
        assert limit.proves(problem.evaluate(problem.identity()))


def test_kinds_add_up() -> None:
    """Independent variables are bounded apart; the sum names every kind it holds."""
    rng = np.random.default_rng(7)
    small, large = rng.random((8, 48)), np.abs(rng.standard_normal((96, 96)))
    terms = (
        Term(large, NM(2, 4), cols="a"),
        Term(small, NM(8, 16), cols="b"),
        Term(small, NM(2, 4)),
    )
    problem = Problem({"a": Free(96), "b": Free(48)}, terms)
    parts = [
        bounds.bound(Problem({"a": Free(96)}, terms[:1])),
        bounds.bound(Problem({"b": Free(48)}, terms[1:2])),
        bounds.bound(Problem({}, terms[2:])),
    ]
    assert [part.kind for part in parts] == ["partition", "row", "exact"]
    whole = bounds.bound(problem)
    assert whole.kind == "mixed"
    assert whole.value == pytest.approx(sum(part.value for part in parts), rel=1e-12)


def test_convolutions_are_bounded_as_rows_of_taps() -> None:
    """A convolution weight is bounded as the matrix with one row per tap."""
    weight = np.random.default_rng(8).random((6, 16, 3, 3))
    rows = np.moveaxis(weight, 1, -1).reshape(-1, 16)
    conv = Problem({"cols": Free(16)}, (Term(weight, NM(2, 4), cols="cols"),))
    assert bounds.bound(conv).value == pytest.approx(bounds.bound(free(rows, 2, 4)).value)
    assert bounds.unconstrained(conv) == pytest.approx(bounds.row_bound(rows, 2, 4))


def test_unknown_method_is_named() -> None:
    """A misspelt method is answered with the known ones."""
    with pytest.raises(UnknownName, match=r"'rows'.*did you mean 'row'"):
        bounds.bound(free(np.ones((2, 8)), 2, 4), "rows")


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(1, 2), (1, 3), (2, 4), (3, 4), (1, 4), (2, 5), (4, 8)]),
    st.lists(st.floats(0, 5), min_size=1, max_size=40),
)
def test_majorant_holds_between_the_knots(
    seed: int, shape: tuple[int, int], sample: list[float]
) -> None:
    """The bilinear extension stays above the sum of the N largest for any values below the top."""
    n, m = shape
    rng = np.random.default_rng(seed)
    knots = pick_knots(np.array(sample), n / m, min(7, knot_count(m)))
    grid = make_grid(knots, n, m)
    weights = rng.dirichlet(np.ones(len(knots)))
    answer = cheapest(grid, [np.outer(weights, weights)], None, 0.0)
    assert answer is not None
    majorant = factor(grid, answer[0], weights)
    groups = rng.random((50, m)) * knots[-1]

    def at(table: Rows) -> Rows:
        return np.stack([np.interp(groups, knots, column) for column in table.T], axis=-1)

    def pairs(values: Rows) -> Rows:
        halved: Rows = (values.sum(axis=1) ** 2 - (values**2).sum(axis=1)).sum(axis=1) / 2
        return halved

    above = (m - 1) * at(majorant.singles[:, None]).sum(axis=(1, 2))
    above += pairs(at(majorant.plus)) if majorant.plus.size else 0
    above -= pairs(at(majorant.minus)) if majorant.minus.size else 0
    assert (above >= np.sort(groups, axis=1)[:, m - n :].sum(axis=1) - 1e-12 * knots[-1]).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([(8, 4), (6, 3), (6, 2)]))
@settings(max_examples=25)
def test_degree_limit_covers_every_partition(seed: int, shape: tuple[int, int]) -> None:
    """The dual of the degree constraints holds for all duals, good or bad."""
    count, m = shape
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((count, count)) * np.exp(3 * rng.standard_normal(count))
    weights += weights.T
    heaviest = max(
        sum(weights[i, j] for group in partition for i, j in itertools.combinations(group, 2))
        for partition in groupings(tuple(range(count)), m)
    )
    found, duals, _ = best_duals(weights, m - 1)
    assert found >= heaviest
    assert dual_limit(weights, duals, m - 1) >= heaviest
    assert dual_limit(weights, rng.standard_normal(count) * 10, m - 1) >= heaviest


@pytest.mark.parametrize("height", [3, 128, 700])
def test_rounding_of_products_is_covered(height: int) -> None:
    """Half the added slack covers what float32 products lost, on every set of disjoint pairs."""
    columns = np.abs(np.random.default_rng(9).standard_normal((16, height))).astype(np.float32)
    scaled = _scale(columns, 2, 4, 8)
    assert scaled is not None
    grid = make_grid(scaled.knots, 2, 4)
    weights = np.full(len(scaled.knots), 1 / len(scaled.knots))
    answer = cheapest(grid, [np.outer(weights, weights)], None, 0.0)
    assert answer is not None
    majorant = factor(grid, answer[0], weights)
    pair, constant, slack = _weights(scaled, majorant, 3)
    exact = np.zeros((16, 16))
    singles = 0.0
    norm = 0.0
    for row, unit in zip(columns.T.astype(np.float64), scaled.quantiles, strict=True):
        values = np.minimum(row / unit, scaled.knots[-1])
        singles += 3 * unit * np.interp(values, scaled.knots, majorant.singles).sum()
        for sign, table in ((1, majorant.plus), (-1, majorant.minus)):
            for column in table.T:
                f = np.sqrt(unit) * np.interp(values, scaled.knots, column)
                exact += sign * np.outer(f, f)
                norm += float(f @ f)
    assert constant == pytest.approx(singles, rel=1e-9)
    assert 0 < slack < 2e-4 * norm
    assert np.triu(np.abs(pair - exact), 1).sum() <= slack


@pytest.mark.parametrize(("count", "n", "m"), [(32, 8, 16), (4, 2, 4), (4100, 2, 4)])
def test_pair_limit_says_where_it_does_not_apply(count: int, n: int, m: int) -> None:
    """Large groups, a single group and very many columns are left to the per-row bound."""
    assert pair_limit(np.ones((count, 2), dtype=np.float32), n, m) is None
    rows = np.ones((2, count))
    assert bounds.bound(free(rows, n, m)).kind in {"row", "exact"}
