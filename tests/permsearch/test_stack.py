"""Column solvers see stacks: every term of a variable once, scaled, segment by segment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import permsearch as ps
from permsearch.domains import Fixed, Free, Segments, Units
from permsearch.patterns import NM, Unstructured
from permsearch.problem import Problem, Term, random_solution
from permsearch.stack import obstacle, pieces
from tests import reference, strategies

WEIGHT = np.abs(ps.instances.gaussian(3, 8, seed=0))


def stacked(problem: Problem) -> list[str]:
    """Return the variables that column solvers can take."""
    return [name for name in problem.sensitive if obstacle(problem, name) is None]


@given(problem=strategies.problems(), seed=strategies.seeds)
def test_pieces_sum_to_the_value(problem: Problem, seed: int) -> None:
    """The stacks' totals and what no order changes add up to the problem's value."""
    if stacked(problem) != list(problem.sensitive):
        return
    solution = random_solution(problem, seed=seed)
    start = problem.identity()
    change = problem.evaluate(solution) - problem.evaluate(start)
    found = 0.0
    for piece in pieces(problem):
        before = piece.stack.total(piece.local(start[piece.variable]))
        found += piece.stack.total(piece.local(solution[piece.variable])) - before
    assert found == pytest.approx(change, rel=1e-6, abs=1e-6 * problem.total)


@given(problem=strategies.problems())
def test_stacks_keep_their_conventions(problem: Problem) -> None:
    """float32, contiguous, two groups at least, and the largest entry in [0.5, 1]."""
    if stacked(problem) != list(problem.sensitive):
        return
    for piece in pieces(problem):
        columns, m = piece.stack.columns, piece.stack.m
        assert columns.dtype == np.float32
        assert columns.flags.c_contiguous
        assert len(columns) % m == 0
        assert len(columns) >= 2 * m
        assert piece.stack.n < m
        assert columns.min() >= 0
        assert columns.max() == 0 or 0.5 <= columns.max() <= 1
        assert np.log2(piece.stack.scale) % 1 == 0


def test_terms_on_one_variable_are_laid_on_top_of_each_other() -> None:
    """Rows of all terms, taps included, stand in one stack in the order of the terms."""
    conv = np.abs(np.random.default_rng(1).standard_normal((2, 8, 3))).astype(np.float32)
    terms = (Term(WEIGHT, NM(2, 4), cols="c"), Term(conv, NM(2, 4), cols="c"))
    (piece,) = pieces(Problem({"c": Free(8)}, terms))
    whole = np.concatenate([WEIGHT, reference.matrix(conv)])
    assert np.array_equal(piece.stack.columns * piece.stack.scale, whole.T)
    order = np.random.default_rng(0).permutation(8)
    assert piece.stack.total(order) == pytest.approx(reference.retained_nm(whole[:, order], 2, 4))


@pytest.mark.parametrize("exponent", [-300, -100, -20, 20, 100, 300])
def test_powers_of_two_leave_the_columns_alone(exponent: int) -> None:
    """Scaling float64 scores by a power of two changes the scale and no column entry."""
    wide = WEIGHT.astype(np.float64)
    (plain,) = pieces(ps.single(wide, "2:4"))
    (moved,) = pieces(ps.single(np.ldexp(wide, exponent), "2:4"))
    assert np.array_equal(plain.stack.columns, moved.stack.columns)
    assert moved.stack.scale == np.ldexp(plain.stack.scale, exponent)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-45, 1e300], ids=str)
def test_extreme_magnitudes_survive(value: float) -> None:
    """Numbers at either end of float64 are searched like any others, without overflow."""
    weight = np.full((2, 8), 0.0)
    weight[:, :4] = value
    result = ps.search(weight, "2:4", solver="swap", stop=ps.MaxSteps(100))
    assert result.retained == pytest.approx(1.0)
    assert result.score == pytest.approx(8 * value)


def test_segments_fall_apart() -> None:
    """Each segment is a stack of its own; one that is a single group is left out."""
    domain = Segments((8, 4, 12))
    weight = np.abs(ps.instances.gaussian(3, 24, seed=0))
    problem = ps.single(weight, "2:4", permute={"cols": domain})
    found = list(pieces(problem))
    assert [(piece.first, len(piece.stack.columns)) for piece in found] == [(0, 8), (12, 12)]
    order = np.array(random_solution(problem, seed=3)["cols"])
    for piece in found:
        local = piece.local(order)
        assert reference.is_permutation(local.tolist())
        backwards = piece.place(order, local[::-1])
        assert backwards[piece.first : piece.first + local.size].tolist() == list(
            order[piece.first : piece.first + local.size][::-1]
        )
        assert np.array_equal(
            np.delete(backwards, np.arange(24)[piece.first :][: local.size]),
            np.delete(order, np.arange(24)[piece.first :][: local.size]),
        )


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (ps.single(WEIGHT, "2:4", permute={"cols": Units(4, 2)}), "units of 2 columns"),
        (ps.single(WEIGHT, "2:4", permute={"cols": Segments((3, 5))}), "do not split into groups"),
        (
            Problem(
                {"c": Free(8)},
                (Term(WEIGHT, NM(2, 4), cols="c"), Term(WEIGHT, NM(1, 4), cols="c")),
            ),
            "different patterns (2:4, 1:4)",
        ),
    ],
    ids=["units", "ragged", "mixed"],
)
def test_obstacles_are_told(problem: Problem, words: str) -> None:
    """What cannot be stacked is refused by column solvers with the reason and another solver."""
    (variable,) = problem.sensitive
    assert words in str(obstacle(problem, variable))
    with pytest.raises(ps.UnsupportedProblem, match="'local'") as caught:
        ps.solve(problem, "swap")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "problem",
    [
        ps.single(WEIGHT, "2:4", permute={"cols": Units(2, 4)}),
        ps.single(WEIGHT, "2:4", permute={"cols": Segments((4, 4))}),
        ps.single(WEIGHT, "2:4", permute={"cols": Segments((1, 3, 2, 2))}),
        ps.single(WEIGHT, "2:4", permute={"cols": Fixed(8)}),
        ps.single(WEIGHT[:, :4], "2:4"),
        Problem({"c": Free(8)}, (Term(WEIGHT, Unstructured(0.5), cols="c"),)),
    ],
    ids=["whole-groups", "group-segments", "inside-groups", "fixed", "one-group", "unstructured"],
)
def test_nothing_to_search_is_no_obstacle(problem: Problem) -> None:
    """Where no order changes anything there is no stack, and the start is proven optimal."""
    assert list(pieces(problem)) == []
    result = ps.solve(problem, "swap")
    assert result.status is ps.Status.OPTIMAL
    assert result.score == result.baseline
