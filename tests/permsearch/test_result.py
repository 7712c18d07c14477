"""A result's numbers follow from its problem and orders, and its masks fit the weight."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import permsearch as ps
from permsearch.domains import Free
from permsearch.errors import ProblemError
from permsearch.patterns import NM
from permsearch.problem import Problem, Term
from tests import reference, strategies
from tests.strategies import Scores

WEIGHT = ps.instances.gaussian(6, 16, seed=0)


@given(drawn=strategies.column_problems(), seed=st.integers(0, 9))
def test_shares_follow_from_the_sums(drawn: tuple[Scores, NM], seed: int) -> None:
    """Retained, gap and efficacy are what their definitions say."""
    scores, pattern = drawn
    result = ps.search(scores, pattern, solver="random", stop=ps.MaxSteps(5), seed=seed)
    total = float(scores.sum(dtype=np.float64))
    start = reference.retained_nm(scores, pattern.n, pattern.m)
    score = reference.retained_nm(scores[:, result.cols], pattern.n, pattern.m)
    ceiling = reference.row_ceiling(scores, pattern.n, pattern.m)
    assert result.total == pytest.approx(total, rel=1e-12, abs=0)
    assert result.baseline == pytest.approx(start, rel=1e-12, abs=0)
    assert result.score == pytest.approx(score, rel=1e-12, abs=0)
    assert result.ceiling == pytest.approx(ceiling, rel=1e-12, abs=0)
    assert result.retained == pytest.approx(score / total if total else 1.0)
    assert 0 <= result.gap <= 1
    assert result.score <= result.bound <= total * (1 + 1e-9)
    if result.ceiling > start * (1 + 1e-9):
        expected = reference.efficacy(start, score, ceiling)
        assert result.efficacy == pytest.approx(expected, abs=1e-6)
    else:
        assert result.efficacy == 1


@given(drawn=strategies.column_problems(), seed=st.integers(0, 9))
def test_masks_fit_the_weight(drawn: tuple[Scores, NM], seed: int) -> None:
    """The mask is in the weight's layout, the other in storage order, and both keep the score."""
    scores, pattern = drawn
    result = ps.search(scores, pattern, solver="random", stop=ps.MaxSteps(3), seed=seed)
    stored = reference.keep_nm(scores[:, result.cols], pattern.n, pattern.m)
    assert np.array_equal(result.permuted_mask, stored)
    rows = list(range(len(scores)))
    assert np.array_equal(result.mask, reference.in_place(stored, rows, result.cols.tolist()))
    kept = float(scores[result.mask].sum(dtype=np.float64))
    assert kept == pytest.approx(result.score, rel=1e-12, abs=0)


def test_all_zero_scores_are_retained_in_full() -> None:
    """Where there is nothing to lose, all of it is kept, proven."""
    result = ps.search(np.zeros((2, 8)), "2:4", solver="swap")
    assert (result.retained, result.efficacy, result.gap) == (1.0, 1.0, 0.0)
    assert result.status is ps.Status.OPTIMAL


def test_axes_that_no_variable_orders_stay_in_place() -> None:
    """Rows that are not searched come back as the identity."""
    result = ps.search(WEIGHT, "2:4", solver="swap")
    assert result.rows.tolist() == list(range(6))
    assert reference.is_permutation(result.cols.tolist())
    fixed = ps.search(WEIGHT, "unstructured@0.5", solver="none")
    assert fixed.cols.tolist() == list(range(16))


def test_padding_is_told_and_left_out_of_the_mask() -> None:
    """Zero columns appear in the order and the stored mask, not in the weight's own mask."""
    result = ps.search(WEIGHT[:, :14], "2:4", solver="swap", pad=True)
    assert result.details["padding"] == 2
    assert result.mask.shape == (6, 14)
    assert result.permuted_mask.shape == (6, 16)
    assert reference.is_permutation(result.cols.tolist())
    assert result.cols.size == 16
    assert "2 zero columns added" in str(result)
    kept = float(np.abs(WEIGHT[:, :14])[result.mask].sum(dtype=np.float64))
    assert kept == pytest.approx(result.score)


def test_several_terms_have_no_single_mask() -> None:
    """For a problem of several weights the error points to the terms."""
    terms = (Term(np.abs(WEIGHT), NM(2, 4), cols="c"), Term(np.abs(WEIGHT), NM(2, 4), cols="c"))
    result = ps.solve(Problem({"c": Free(16)}, terms), "swap")
    with pytest.raises(ProblemError, match=r"2 terms; use result\.solution"):
        _ = result.mask
    assert terms[0].mask(result.solution).shape == (6, 16)


def test_the_trace_tells_every_rise() -> None:
    """It begins at the start, rises strictly, and ends at the score."""
    result = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(50))
    scores = [point.score for point in result.trace]
    assert scores[0] == result.baseline
    assert scores[-1] == pytest.approx(result.score)
    assert all(a < b for a, b in itertools.pairwise(scores))
    assert [point.step for point in result.trace] == sorted(point.step for point in result.trace)
    assert result.trace[-1].step <= result.steps


def test_a_result_says_what_it_found() -> None:
    """The text has the shares, the status, the steps and the solver."""
    result = ps.search(WEIGHT, "2:4", solver="swap")
    text = str(result)
    assert text.startswith("Swap(")
    for part in (f"{result.retained:.5f}", str(result.status), f"{result.steps} steps", "bound"):
        assert part in text


def test_results_travel_between_processes() -> None:
    """A result can be copied and pickled, problem and all."""
    result = ps.search(WEIGHT, "2:4", solver="swap")
    for twin in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert twin.score == result.score
        assert np.array_equal(twin.mask, result.mask)
