"""The entry points do what nine users in ten type, and nothing to the caller's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import permsearch as ps
from permsearch.domains import Fixed, Free, Segments, contains
from permsearch.errors import ProblemError, ScoresError
from permsearch.solvers.none import NoSearch
from permsearch.solvers.registry import get_solver
from permsearch.solvers.swap import Swap
from tests import reference

WEIGHT = ps.instances.gaussian(12, 16, seed=0)
SCORES = np.abs(WEIGHT)


def swap(weight: Any, pattern: str = "2:4", **options: Any) -> ps.SearchResult:
    """Search with swaps, which need no budget on matrices this small."""
    return ps.search(weight, pattern, solver="swap", **options)


def test_the_order_is_what_to_store() -> None:
    """``weight[:, cols]`` under the stored mask keeps the score, and gains on the start."""
    result = swap(WEIGHT)
    stored = np.abs(WEIGHT[:, result.cols])
    kept = float(stored[result.permuted_mask].sum(dtype=np.float64))
    assert kept == pytest.approx(result.score)
    assert result.score > result.baseline
    assert result.baseline == pytest.approx(reference.retained_nm(SCORES, 2, 4))


def test_arrays_stay_as_they_were() -> None:
    """Neither weight nor scores nor start are changed."""
    weight, scores, start = WEIGHT.copy(), SCORES * 2, np.arange(16)[::-1].copy()
    swap(weight, scores=scores, start=start)
    assert np.array_equal(weight, WEIGHT)
    assert np.array_equal(scores, SCORES * 2)
    assert start.tolist() == list(range(16))[::-1]


def test_scores_take_the_place_of_magnitudes() -> None:
    """With scores the weight's own values do not matter, and it may be left out."""
    own = np.abs(ps.instances.laplace(12, 16, seed=1))
    first = swap(WEIGHT, scores=own)
    assert np.array_equal(first.cols, swap(None, scores=own).cols)
    assert np.array_equal(first.cols, swap(own).cols)
    assert first.score == pytest.approx(reference.retained_nm(own[:, first.cols], 2, 4))


def test_tensors_and_lists_are_weights() -> None:
    """A tensor, a parameter, a nested list and a convolution give the same orders as arrays."""
    expected = swap(WEIGHT)
    for weight in (torch.tensor(WEIGHT), torch.nn.Parameter(torch.tensor(WEIGHT)), WEIGHT.tolist()):
        assert np.array_equal(swap(weight).cols, expected.cols)
    conv = torch.tensor(WEIGHT).reshape(12, 16, 1, 1)
    assert np.array_equal(swap(conv).cols, expected.cols)
    assert swap(conv).mask.shape == (12, 16, 1, 1)
    assert np.array_equal(swap(None, scores=SCORES.tolist()).cols, expected.cols)
    padded = swap(WEIGHT[:, :15].tolist(), pad=True)
    assert padded.details["padding"] == 1


def test_convolutions_are_searched_along_input_channels() -> None:
    """Every tap is a row: the order is that of the unfolded matrix, up to the rows' order."""
    conv = np.random.default_rng(0).standard_normal((4, 16, 3, 3)).astype(np.float32)
    result = swap(conv)
    matrix = reference.matrix(np.abs(conv[:, result.cols]))
    assert result.score == pytest.approx(reference.retained_nm(matrix, 2, 4))
    assert result.score == pytest.approx(swap(reference.matrix(conv)).score)
    assert result.mask.shape == conv.shape


def test_permute_chooses_axes_and_domains() -> None:
    """By default the axes that matter; by name or domain what is asked for."""
    assert set(ps.single(WEIGHT, "2:4").domains) == {"cols"}
    assert set(ps.single(WEIGHT, "unstructured@0.5").domains) == set()
    assert set(ps.single(WEIGHT, "2:4", permute="rows").domains) == {"rows"}
    assert set(ps.single(WEIGHT, "2:4", permute=["cols", "rows"]).domains) == {"rows", "cols"}
    rows = ps.solve(ps.single(WEIGHT, "2:4", permute="rows"), "swap")
    assert rows.score == swap(WEIGHT, permute=[]).baseline
    halves = Segments((8, 8))
    result = swap(WEIGHT, permute={"cols": halves})
    assert contains(halves, result.cols)
    assert result.score > result.baseline
    assert swap(WEIGHT, permute={"cols": Fixed(16)}).status is ps.Status.OPTIMAL


def test_starts_are_orders_or_mappings() -> None:
    """A start is the baseline, given as an array, a list or by axis."""
    start = np.random.default_rng(0).permutation(16)
    expected = reference.retained_nm(SCORES[:, start], 2, 4)
    for form in (start, start.tolist(), {"cols": start}, torch.tensor(start)):
        result = ps.search(WEIGHT, "2:4", solver="none", start=form)
        assert result.baseline == pytest.approx(expected)
        assert np.array_equal(result.cols, start)


def test_several_axes_need_a_mapping() -> None:
    """With rows and columns free a bare order is ambiguous, and the error says so."""
    with pytest.raises(ProblemError, match="mapping from axis to order"):
        swap(WEIGHT, permute=["rows", "cols"], start=np.arange(16))
    with pytest.raises(ProblemError, match="no axis is reordered"):
        ps.search(WEIGHT, "unstructured@0.5", solver="none", start=np.arange(16))


def test_a_second_search_goes_on_from_the_first() -> None:
    """Handing the orders back as the start never loses."""
    first = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(5))
    second = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(5), start=first.cols)
    assert second.baseline == first.score
    assert second.score >= first.score


def test_padding_only_where_needed() -> None:
    """Padding a weight that fits changes nothing and is not told."""
    result = swap(WEIGHT, pad=True)
    assert "padding" not in result.details
    assert np.array_equal(result.cols, swap(WEIGHT).cols)


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_few_columns_can_be_padded(columns: int) -> None:
    """One column is enough to search once zero columns are added."""
    result = swap(WEIGHT[:, :columns], pad=True)
    assert result.mask.shape == (12, columns)
    assert result.score <= float(SCORES[:, :columns].sum(dtype=np.float64)) * (1 + 1e-12)


def test_shapes_of_weight_and_scores_must_agree() -> None:
    """The error names both shapes, also where the weight is a list."""
    for weight in (WEIGHT, WEIGHT.tolist(), torch.tensor(WEIGHT)):
        with pytest.raises(ScoresError, match=r"\(12, 8\), but the weight has \(12, 16\)"):
            swap(weight, scores=SCORES[:, :8])


def test_solvers_are_names_or_values() -> None:
    """A name means the solver's default options; a value is used as it is."""
    assert get_solver("swap") == Swap()
    assert get_solver(NoSearch()) == NoSearch()
    named, valued = ps.search(WEIGHT, "2:4", solver="swap"), ps.search(WEIGHT, "2:4", solver=Swap())
    assert np.array_equal(named.cols, valued.cols)
    assert named.solver == "Swap(kicks=16)"


def test_seeds_may_be_any_whole_number() -> None:
    """Numpy integers and large numbers are seeds like any other, and the result tells them."""
    seeds: list[Any] = [0, np.int64(3), 2**40, 2**70]
    for seed in seeds:
        result = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(2), seed=seed)
        assert result.seed == seed
    a = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(2), seed=1)
    b = ps.search(WEIGHT, "2:4", solver="random", stop=ps.MaxSteps(2), seed=2)
    assert not np.array_equal(a.cols, b.cols)


def test_solve_takes_problems_of_several_terms() -> None:
    """Terms on one variable are searched as one; each keeps its own mask."""
    terms = (
        ps.Term(SCORES, ps.NM(2, 4), cols="c"),
        ps.Term(np.abs(ps.instances.laplace(4, 16, seed=2)), ps.NM(2, 4), cols="c"),
    )
    problem = ps.Problem({"c": Free(16)}, terms)
    result = ps.solve(problem, "swap")
    stacked = np.concatenate([term.scores for term in terms])
    assert result.score == pytest.approx(swap(stacked).score)
    assert problem.evaluate(result.solution) == result.score


def test_padding_is_no_error_where_none_is_needed() -> None:
    """`pad=True` can be said for a whole file: patterns that fit any length add nothing."""
    for pattern in ("unstructured@0.5", "unaligned:4@0.25", "tile:8@0.25"):
        result = ps.search(WEIGHT, pattern, pad=True, solver="none")
        assert result.mask.shape == WEIGHT.shape
        assert not {"padding", "row_padding"} & set(result.details)


def test_a_single_row_is_told_in_the_singular() -> None:
    """Errors about one row read as a sentence."""
    with pytest.raises(ps.PatternError, match=r"1 row does not split into groups of 2"):
        ps.search(WEIGHT[:1], "vector:2@0.5")


@pytest.mark.parametrize(
    ("pattern", "asked", "matter"), [("2:4", "rows", "cols"), ("vector:4@0.5", "cols", "rows")]
)
def test_axes_that_do_not_matter_alone_are_told(pattern: str, asked: str, matter: str) -> None:
    """Reordering only what changes nothing is a mistake, and the axis that matters is named."""
    words = f"the order of {asked} does not change .* only that of {matter} does"
    for call in (ps.search, lambda *a, **o: ps.search_all({"w": WEIGHT}, *a[1:], **o)):
        with pytest.raises(ps.ProblemError, match=words):
            call(WEIGHT, pattern, permute=[asked])
    assert ps.search(WEIGHT, pattern, permute=["rows", "cols"], solver="none").score > 0
