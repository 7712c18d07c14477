"""Bad input ends at once in one sentence: the value, the place, and the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import permsearch as ps
from permsearch.errors import (
    PatternError,
    PermsearchError,
    ProblemError,
    ScoresError,
    UnknownName,
)

WEIGHT = ps.instances.gaussian(6, 16, seed=0)
NAME = "encoder.layer.0.query"


def search(weight: Any, pattern: Any = "2:4", **options: Any) -> ps.SearchResult:
    """Search a named weight with swaps."""
    options = {"solver": "swap", "name": NAME, **options}
    return ps.search(weight, pattern, **options)


def spoilt(value: float, dtype: Any = np.float32) -> Any:
    """Return the weight with one bad entry at (3, 5)."""
    weight = WEIGHT.astype(dtype)
    weight[3, 5] = value
    return weight


def message(error: type[PermsearchError], weight: Any, pattern: Any = "2:4", **options: Any) -> str:
    """Return what a search that must fail says, in one line."""
    with pytest.raises(error) as caught:
        search(weight, pattern, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert isinstance(caught.value, ValueError)
    return text


# ------------------------------------------------------------------------------ values


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=str)
def test_values_that_are_not_finite(value: float, dtype: type) -> None:
    """The tensor, the value, its index and the number of such entries are named."""
    text = message(ScoresError, spoilt(value, dtype))
    for part in (NAME, str(value), "(3, 5)", "1 entries"):
        assert part in text
    assert "(3, 5)" in message(ScoresError, None, scores=np.abs(spoilt(value, dtype)))
    assert "(3, 5)" in message(ScoresError, torch.tensor(spoilt(value, dtype)))


def test_values_that_are_not_finite_in_bfloat16() -> None:
    """A NaN in a bfloat16 tensor is found although numpy knows no such type."""
    text = message(ScoresError, torch.tensor(spoilt(np.nan)).bfloat16())
    assert NAME in text
    assert "nan at index (3, 5)" in text


def test_the_index_of_a_bad_tap_has_all_axes() -> None:
    """In a convolution the index has one number for each axis."""
    weight = np.ones((2, 8, 3, 3), np.float32)
    weight[1, 7, 2, 0] = np.nan
    assert "(1, 7, 2, 0)" in message(ScoresError, weight)


def test_the_weight_may_be_nameless() -> None:
    """Without a name the sentence still reads."""
    text = message(ScoresError, spoilt(np.nan), name="")
    assert text.startswith("the weight holds nan at index (3, 5)")


@pytest.mark.parametrize(
    "weight",
    [
        WEIGHT.astype(np.complex64),
        WEIGHT.astype(np.complex128),
        torch.tensor(WEIGHT).to(torch.complex64),
        WEIGHT.astype(object),
        WEIGHT.astype(str),
        np.full((4, 8), np.datetime64("2024-01-01")),
        np.full((4, 8), None),
    ],
    ids=[
        "complex64",
        "complex128",
        "torch-complex",
        "object",
        "text",
        "date",
        "None",
    ],
)
def test_entries_that_are_no_real_numbers(weight: Any) -> None:
    """The tensor and the type are named, and what would help."""
    text = message(ScoresError, weight)
    assert NAME in text
    assert "dtype" in text
    assert "real numbers" in text


@pytest.mark.parametrize(
    "weight", ["weights.npy", Path("weights.npy"), {"a": WEIGHT}], ids=["text", "path", "dict"]
)
def test_what_holds_arrays_is_no_weight(weight: Any) -> None:
    """A path or a mapping is told from an array, and `search_all` is named."""
    text = message(ScoresError, weight)
    assert f"the weight of {NAME} is a " in text
    assert "search_all(" in text


def test_own_scores_are_called_scores() -> None:
    """What is wrong with `scores=` is not said of the weight."""
    bad: tuple[Any, ...] = (
        np.abs(spoilt(np.nan)),
        WEIGHT.astype(complex),
        np.ones(16),
        np.ones((0, 16)),
        [[1.0, 2.0], [1.0]],
        np.full((6, 16), 2**60),
        "scores.npy",
    )
    for scores in bad:
        for weight in (WEIGHT, None):
            text = message(ScoresError, weight, scores=scores)
            assert text.startswith(f"the array of scores of {NAME}")
            assert "the weight" not in text


def test_ragged_lists() -> None:
    """Rows of different lengths are neither a weight nor scores."""
    ragged = [[1.0, 2.0], [1.0]]
    for weight, scores in ((ragged, None), (WEIGHT, ragged), (None, ragged), (ragged, WEIGHT**2)):
        text = message(ScoresError, weight, scores=scores)
        assert NAME in text
        assert "rows equally long" in text


def test_no_weight_at_all() -> None:
    """None without scores= is told as such, not as an array of objects."""
    assert f"{NAME} is None; give an array" in message(ScoresError, None)


@pytest.mark.parametrize(
    ("value", "dtype"), [(2**53 + 2, np.int64), (-(2**60), np.int64), (2**64 - 1, np.uint64)]
)
def test_integers_that_would_be_rounded(value: int, dtype: type) -> None:
    """Integers beyond 2**53 are named rather than rounded."""
    weight: NDArray[Any] = np.ones((4, 8), dtype)
    weight[1, 2] = value
    text = message(ScoresError, weight)
    for part in (NAME, str(value), "2**53", "scale it down"):
        assert part in text


def test_integers_whose_sum_would_wrap() -> None:
    """Sums are taken in float64: small integer types neither wrap nor saturate."""
    weight = np.full((64, 16), -128, np.int8)
    result = search(weight)
    assert result.total == 128.0 * weight.size
    assert result.score == result.total / 2


def test_half_floats_whose_sum_would_overflow() -> None:
    """1024 entries of 60000 sum to far more than float16 holds; nothing becomes infinite."""
    for weight in (
        np.full((64, 16), 60000, np.float16),
        torch.full((64, 16), 60000, dtype=torch.float16),
    ):
        result = search(weight)
        assert result.total == pytest.approx(60000 * 1024, rel=1e-3)
        assert result.retained == pytest.approx(0.5)


def test_single_floats_whose_sum_would_overflow() -> None:
    """Sums beyond float32 are fine in float64."""
    result = search(np.full((64, 16), 3e38, np.float32))
    assert result.total == pytest.approx(3e38 * 1024)
    assert result.retained == pytest.approx(0.5)


@pytest.mark.parametrize("value", [1e306, 1.7e308], ids=str)
def test_doubles_whose_sum_overflows(value: float) -> None:
    """What float64 cannot sum is an error that says how to scale."""
    text = message(ScoresError, np.full((64, 16), value))
    assert NAME in text
    assert "2**-" in text


def test_doubles_near_the_end_of_the_range() -> None:
    """A single entry near the largest double is refused; below that nothing becomes infinite."""
    weight = np.ones((2, 8))
    weight[0, 0] = 1.7e308
    assert NAME in message(ScoresError, weight)
    weight[0, 0] = 2.0**999
    result = search(weight)
    assert np.isfinite([result.score, result.bound, result.ceiling, result.retained]).all()


def test_negative_scores() -> None:
    """A weight is taken by magnitude; a score must be an importance, and the error explains."""
    text = message(ScoresError, WEIGHT, scores=spoilt(-0.25) ** 1)
    assert NAME in text
    assert "must be >= 0" in text
    assert "without scores=" in text
    scores = np.abs(WEIGHT)
    scores[3, 5] = -0.25
    text = message(ScoresError, WEIGHT, scores=scores)
    assert "-0.25 at index (3, 5)" in text
    assert search(-np.abs(WEIGHT)).score == search(np.abs(WEIGHT)).score


def test_negative_zero_is_zero() -> None:
    """The sign of a zero does not matter."""
    scores = np.abs(WEIGHT)
    scores[3, 5] = -0.0
    assert search(None, scores=scores).status


# ------------------------------------------------------------------------------ shapes


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0), (4, 8, 0)], ids=str)
def test_empty_weights(shape: tuple[int, ...]) -> None:
    """An empty weight is named with its shape."""
    text = message(ScoresError, np.zeros(shape))
    assert NAME in text
    assert f"{shape}" in text
    assert "empty" in text


@pytest.mark.parametrize("shape", [(), (16,)], ids=str)
def test_weights_without_columns(shape: tuple[int, ...]) -> None:
    """A scalar or a vector has no columns to reorder."""
    text = message(ScoresError, np.ones(shape))
    assert NAME in text
    assert f"{shape}" in text
    assert "two axes" in text
    assert "two axes" in message(ScoresError, torch.ones(shape))


@pytest.mark.parametrize(("columns", "missing"), [(1, 3), (6, 2), (15, 1), (3, 1)])
def test_columns_that_are_no_multiple_of_m(columns: int, missing: int) -> None:
    """The error names the weight, both numbers and the way out; padding then works and tells."""
    weight = WEIGHT[:, :columns]
    text = message(PatternError, weight)
    own = "1 column does" if columns == 1 else f"{columns} columns do"
    way_out = "leave the weight out" if columns == 1 else f"pad=True to add {missing}"
    for part in (NAME, own, "groups of 4", way_out):
        assert part in text
    result = search(weight, pad=True)
    assert result.details["padding"] == missing
    assert result.mask.shape == weight.shape
    assert f"{missing} zero column" in str(result)


def test_one_column_with_groups_of_one() -> None:
    """A single column fits 1:1, where everything is kept."""
    result = search(WEIGHT[:, :1], "1:1")
    assert result.retained == 1
    assert result.status is ps.Status.OPTIMAL


# ------------------------------------------------------------------------------ memory


def _views() -> dict[str, Any]:
    wide = np.repeat(WEIGHT, 2, axis=1)
    frozen = WEIGHT.copy()
    frozen.flags.writeable = False
    tensor = torch.tensor(WEIGHT)
    return {
        "fortran": np.asfortranarray(WEIGHT),
        "every-second": wide[:, ::2],
        "backwards": WEIGHT[::-1, ::-1].copy()[::-1, ::-1],
        "transposed": WEIGHT.T.copy().T,
        "read-only": frozen,
        "big-endian": WEIGHT.astype(">f4"),
        "torch-transposed": torch.tensor(WEIGHT.T.copy()).t(),
        "torch-strided": torch.tensor(wide)[:, ::2],
        "torch-channels-last": tensor.reshape(6, 16, 1, 1)
        .expand(6, 16, 1, 1)
        .contiguous(memory_format=torch.channels_last),
        "requires-grad": tensor.clone().requires_grad_(),
        "inside-a-graph": tensor.clone().requires_grad_() * 1,
    }


@pytest.mark.parametrize("weight", _views().values(), ids=_views().keys())
def test_memory_layout_does_not_matter(weight: Any) -> None:
    """Views, read-only arrays and tensors in a graph give the order of a plain copy, untouched."""
    result = search(weight)
    expected = search(WEIGHT)
    assert np.array_equal(result.cols, expected.cols)
    assert np.array_equal(result.mask.reshape(6, 16), expected.mask)
    assert result.score == expected.score


def test_expanded_tensors_are_not_written_through() -> None:
    """A tensor whose rows share memory is searched like its contiguous copy."""
    tensor = torch.tensor(WEIGHT[:1]).expand(6, 16)
    result = search(tensor)
    assert np.array_equal(result.cols, search(tensor.contiguous()).cols)
    assert np.array_equal(tensor[5].numpy(), WEIGHT[0])


def test_results_do_not_share_the_callers_memory() -> None:
    """Changing the weight after the search changes no result."""
    weight = WEIGHT.copy()
    result = search(weight)
    mask = result.mask.copy()
    weight[:] = 0
    assert np.array_equal(result.mask, mask)


def test_sparse_tensors_are_named() -> None:
    """A tensor that numpy cannot view is refused with its name."""
    text = message(ScoresError, torch.tensor(WEIGHT).to_sparse())
    assert NAME in text
    assert "dense" in text


def test_tensors_without_data_are_named() -> None:
    """A tensor on the meta device has nothing to search."""
    text = message(ScoresError, torch.empty(8, 16, device="meta"))
    assert NAME in text


# ------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("name", "near"),
    [("swp", "swap"), ("aneal", "anneal"), ("Auto", "auto"), ("exhaustve", "exhaustive")],
)
def test_unknown_solvers(name: str, near: str) -> None:
    """The nearest names are offered, and all are listed."""
    text = message(UnknownName, WEIGHT, solver=name)
    assert f"unknown solver {name!r}" in text
    assert f"did you mean {near!r}" in text or f" or {near!r}" in text
    for known in ps.solver_names():
        assert known in text


@pytest.mark.parametrize("solver", [None, 3, type(ps.get_solver("swap"))], ids=repr)
def test_what_is_no_solver(solver: Any) -> None:
    """Neither a name nor a solver value: the class itself, a number, nothing."""
    text = message(UnknownName, WEIGHT, solver=solver)
    assert "solver" in text
    assert "name" in text


@pytest.mark.parametrize("text", ["2;4", "24", "2:4:6:8", "two of four"])
def test_unknown_patterns(text: str) -> None:
    """The known forms are listed."""
    said = message(UnknownName, WEIGHT, text)
    assert repr(text) in said
    assert "N:M" in said
    assert "unstructured@SHARE" in said


@pytest.mark.parametrize("text", ["4:2", "0:4", "2:64", "unstructured@2"])
def test_impossible_patterns(text: str) -> None:
    """Numbers that make no pattern are named."""
    assert text.split("@")[-1] in message(PatternError, WEIGHT, text)


@pytest.mark.parametrize("axis", ["columns", "row", "col", "Cols"])
def test_misspelt_axes(axis: str) -> None:
    """The nearest axis is offered, in every form that permute takes."""
    for permute in (axis, [axis], ["rows", axis], {axis: ps.Free(16)}):
        text = message(UnknownName, WEIGHT, permute=permute)
        assert f"unknown axis {axis!r}" in text
        assert "did you mean" in text


def test_domains_of_a_wrong_size() -> None:
    """The domain's size and the weight's are both named."""
    text = message(ProblemError, WEIGHT, permute={"cols": ps.Free(12)})
    assert NAME in text
    assert "16" in text
    assert "12" in text


def test_what_is_no_domain() -> None:
    """A number in the place of a domain is named."""
    assert "domain" in message(ProblemError, WEIGHT, permute={"cols": 16})
