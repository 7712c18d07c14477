"""A problem's value is the sum of its terms', whatever variables they share."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

import permsearch as ps
from permsearch.domains import Fixed, Free, Segments, Units, contains
from permsearch.errors import OrderError, PatternError, ProblemError, ScoresError, UnknownName
from permsearch.patterns import NM, Unstructured
from permsearch.problem import Problem, Term, random_solution
from tests import reference, strategies

SCORES = np.abs(ps.instances.gaussian(4, 8, seed=0))


def one(domain: ps.Domain | None = None, **options: Any) -> Problem:
    """Return a problem of one term whose columns are ordered by variable "c"."""
    return Problem({"c": domain or Free(8)}, (Term(SCORES, NM(2, 4), cols="c", **options),))


@given(problem=strategies.problems(), seed=strategies.seeds)
def test_value_is_the_sum_of_reordered_terms(problem: Problem, seed: int) -> None:
    """Evaluating a solution equals reordering every matrix by hand and sorting its groups."""
    solution = random_solution(problem, seed=seed)
    expected = 0.0
    for term in problem.terms:
        assert isinstance(term.pattern, NM)
        scores = term.scores if term.rows is None else term.scores[solution[term.rows]]
        scores = scores if term.cols is None else scores[:, solution[term.cols]]
        expected += reference.retained_nm(scores, term.pattern.n, term.pattern.m)
    assert problem.evaluate(solution) == pytest.approx(expected, rel=1e-12, abs=0)
    assert problem.evaluate(solution) <= problem.total * (1 + 1e-12)


@given(problem=strategies.problems(), seed=strategies.seeds)
def test_random_solutions_are_legal_and_seeded(problem: Problem, seed: int) -> None:
    """Every variable gets a legal order; the same seed gives the same orders."""
    solution = random_solution(problem, seed=seed)
    again = random_solution(problem, seed=seed)
    assert solution.keys() == problem.domains.keys()
    for name, domain in problem.domains.items():
        assert contains(domain, solution[name])
        assert np.array_equal(solution[name], again[name])


@given(problem=strategies.problems(), seed=strategies.seeds)
def test_both_masks_keep_the_same_entries(problem: Problem, seed: int) -> None:
    """The mask in the weight's layout is the stored one put back, and keeps the value."""
    solution = random_solution(problem, seed=seed)
    for term in problem.terms:
        rows, cols = (
            list(range(size)) if name is None else solution[name].tolist()
            for name, size in zip((term.rows, term.cols), term.scores.shape, strict=True)
        )
        stored, mask = term.permuted_mask(solution), term.mask(solution)
        assert np.array_equal(mask, reference.in_place(stored, rows, cols))
        assert term.pattern.accepts(stored)
        kept = float(term.scores[mask].sum(dtype=np.float64))
        assert kept == pytest.approx(term.retained(solution), rel=1e-12, abs=0)


def test_masks_of_convolutions_follow_channels() -> None:
    """With taps behind the channels the mask goes back by output and input channel."""
    weight = np.abs(np.random.default_rng(0).standard_normal((3, 8, 2, 2)))
    term = Term(weight, NM(2, 4), "r", "c")
    problem = Problem({"r": Free(3), "c": Free(8)}, (term,))
    solution = random_solution(problem, seed=1)
    mask = term.mask(solution)
    moved = mask[solution["r"]][:, solution["c"]]
    assert np.array_equal(moved, term.permuted_mask(solution))
    assert weight[mask].sum() == pytest.approx(problem.evaluate(solution))


def test_sensitive_variables_are_those_worth_searching() -> None:
    """Fixed variables, rows under N:M, patterns without groups and unused axes are left out."""
    terms = (
        Term(SCORES, NM(2, 4), rows="r", cols="c"),
        Term(SCORES, NM(2, 4), cols="still"),
        Term(SCORES, Unstructured(0.5), cols="loose"),
        Term(SCORES, NM(4, 4), cols="all"),
    )
    axes: dict[str, ps.Domain] = {name: Free(8) for name in ("c", "loose", "all", "unused")}
    problem = Problem({**axes, "r": Free(4), "still": Fixed(8)}, terms)
    assert problem.sensitive == ("c",)
    assert [term.cols for term in problem.terms_on("c")] == ["c"]
    assert problem.total == pytest.approx(4 * float(SCORES.sum(dtype=float)))


def test_missing_variables_stay_in_place() -> None:
    """A partial solution is completed by identities, and the orders are copied."""
    problem = Problem({"r": Free(4), "c": Free(8)}, (Term(SCORES, NM(2, 4), rows="r", cols="c"),))
    mine = np.array([3, 2, 1, 0])
    whole = problem.complete({"r": mine})
    assert whole["c"].tolist() == list(range(8))
    mine[:] = 0
    assert whole["r"].tolist() == [3, 2, 1, 0]
    assert problem.evaluate({}) == problem.evaluate(problem.identity())


@pytest.mark.parametrize(
    ("domain", "order", "words"),
    [
        (Free(8), [0] * 8, "order of 'c' names item 0 8 times"),
        (Free(8), list(range(4)), "order of 'c' has 4 entries, but 8"),
        (Segments((4, 4)), [4, 1, 2, 3, 0, 5, 6, 7], "'c' is not one that Segments"),
        (Units(4, 2), [1, 0, 2, 3, 4, 5, 6, 7], "'c' is not one that Units"),
        (Fixed(8), [7, 6, 5, 4, 3, 2, 1, 0], "'c' is not one that Fixed"),
    ],
    ids=["double", "short", "segments", "units", "fixed"],
)
def test_illegal_orders_are_named(domain: ps.Domain, order: list[int], words: str) -> None:
    """The error names the variable and what its domain allows."""
    with pytest.raises(OrderError, match=words):
        one(domain).evaluate({"c": order})


def test_unknown_variables_are_named() -> None:
    """A misspelt variable is answered with the near ones, in solutions and in terms."""
    with pytest.raises(UnknownName, match="unknown variable 'x'; known: c"):
        one().evaluate({"x": np.arange(8)})
    with pytest.raises(UnknownName, match="did you mean 'hidden'"):
        Problem({"hidden": Free(8)}, (Term(SCORES, NM(2, 4), cols="hiden", name="w"),))


def test_sizes_must_fit() -> None:
    """A term whose axis has another size than its variable is named with both numbers."""
    with pytest.raises(ProblemError, match=r"w has 8 entries on axis 1.*'c' orders 9 items"):
        one(Free(9), name="w")
    with pytest.raises(ProblemError, match="term 0 has 4 entries on axis 0"):
        Problem({"r": Free(5)}, (Term(SCORES, NM(2, 4), rows="r"),))


def test_a_problem_needs_something() -> None:
    """Variables alone will do, to draw legal orders from; nothing at all is an error."""
    assert Problem({"c": Free(8)}, ()).sensitive == ()
    with pytest.raises(ProblemError, match="at least one term or variable"):
        Problem({}, ())


def test_a_term_that_does_not_tile_names_its_weight() -> None:
    """The pattern's complaint begins with the name of the weight."""
    with pytest.raises(PatternError, match=r"layer\.3: 6 columns do not split"):
        Term(np.ones((2, 6)), NM(2, 4), name="layer.3")


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "nan at index"), (np.inf, "inf at index"), (-1.0, "got -1.0 at index")],
    ids=str,
)
def test_a_term_refuses_scores_that_are_no_importances(value: float, words: str) -> None:
    """NaN, infinite and negative scores never enter a problem, however it is built."""
    scores = SCORES.astype(np.float64)
    scores[3, 5] = value
    with pytest.raises(ScoresError, match=words) as caught:
        Term(scores, NM(2, 4), cols="c", name="layer.3")
    assert "layer.3" in str(caught.value)
    assert "(3, 5)" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, np.uint8, np.bool_], ids=str)
def test_a_term_widens_scores_of_other_types(dtype: type) -> None:
    """Integers and half floats are values like any other; sums are taken in float64."""
    scores: NDArray[Any] = (np.arange(32).reshape(4, 8) % 5).astype(dtype)
    term = Term(scores, NM(2, 4), cols="c")
    assert term.scores.dtype in (np.float32, np.float64)
    wide = scores.astype(np.float64)
    assert term.retained({}) == reference.retained_nm(wide, 2, 4)


def test_problems_cannot_be_changed() -> None:
    """Domains are a read-only copy of what was given, and fields cannot be set."""
    axes: dict[str, ps.Domain] = {"c": Free(8)}
    problem = Problem(axes, (Term(SCORES, NM(2, 4), cols="c"),))
    axes["d"] = Free(3)
    assert list(problem.domains) == ["c"]
    with pytest.raises(TypeError):
        problem.domains["d"] = Free(3)  # type: ignore[index]
    with pytest.raises(AttributeError):
        problem.terms = ()  # type: ignore[misc]


def test_problems_travel_between_processes() -> None:
    """Terms and results can be copied and pickled, as process pools need."""
    import pickle

    problem = one()
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert twin.evaluate({}) == problem.evaluate({})
        assert dict(twin.domains) == dict(problem.domains)


def test_units_must_fill_their_segments() -> None:
    """A domain of one's own whose units do not fill the segments is refused."""

    class Odd:
        """Units of two in a segment of five."""

        segments = (5, 3)
        width = 2

    with pytest.raises(ProblemError, match="units of 2 do not fill"):
        one(Odd())


def test_a_domain_must_be_one() -> None:
    """A number, or the class itself, in the place of a domain is named with its variable."""
    for wrong in (8, Free):
        with pytest.raises(ProblemError, match="variable 'c' has the domain"):
            one(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("domains", "terms", "words"),
    [
        ({"cols": Free(8)}, Term(np.ones((2, 8)), "2:4"), r"Problem\(domains, \(term,\)\)"),
        ({"cols": Free(8)}, None, "tuple of Term values; it holds None"),
        ({"cols": Free(8)}, (np.ones(2),), "tuple of Term values; it holds array"),
        (Free(8), (Term(np.ones((2, 8)), "2:4"),), r"names of variables.*got Free\(count=8\)"),
    ],
)
def test_what_is_given_for_domains_and_terms(domains: Any, terms: Any, words: str) -> None:
    """A term alone, nothing, an array or a domain alone: the error says what is meant."""
    with pytest.raises(ProblemError, match=words):
        Problem(domains, terms)


def test_terms_may_come_from_a_generator() -> None:
    """Any iterable of terms makes a problem."""
    terms = (Term(np.ones((2, 8)), "2:4") for _ in range(2))
    assert len(Problem({}, terms).terms) == 2  # type: ignore[arg-type]


def test_solutions_are_mappings() -> None:
    """A bare order does not say which variable it orders; the error names them."""
    problem = Problem({"cols": Free(8)}, (Term(np.ones((2, 8)), "2:4", cols="cols"),))
    with pytest.raises(OrderError, match=r"mapping.*\(cols\), got a ndarray"):
        problem.evaluate(np.arange(8))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_private(dtype: type) -> None:
    """Neither the caller's array nor a view of it reaches into a term, nor the term out of it."""
    mine: NDArray[Any] = np.ones((2, 8), dtype)
    view = mine[:]
    view.setflags(write=False)
    for scores in (mine, view):
        term = Term(scores, "2:4", cols="cols")
        mine[0, 0] = 5
        assert term.scores[0, 0] == 1
        assert not term.scores.flags.writeable
        mine[0, 0] = 1


def test_frozen_scores_are_not_copied() -> None:
    """Scores that are read-only and nobody's view are taken as they are: no second copy."""
    mine = np.ones((2, 8))
    mine.setflags(write=False)
    assert Term(mine, "2:4").scores is mine


def test_kernels_see_columns_that_are_writable() -> None:
    """Read-only scores do not make kernels compile a second time: columns are copies."""
    for rows in (1, 3):
        term = Term(np.ones((rows, 8), np.float32), "2:4", cols="cols")
        (piece,) = ps.stack.pieces(Problem({"cols": Free(8)}, (term,)))
        assert piece.stack.columns.flags.writeable
