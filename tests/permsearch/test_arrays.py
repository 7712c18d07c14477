"""Arrays and tensors of every kind become the same scores, and the caller's stay as they were."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from permsearch.arrays import as_scores, frozen_scores, magnitude, pad_to, to_numpy
from permsearch.errors import ScoresError

WEIGHT: NDArray[np.float32] = np.array(
    [[-5.0, 1.0, 2.0, 0.5], [-1.0, -2.0, -3.0, -4.0]], np.float32
)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


def _strided(array: NDArray[Any]) -> NDArray[Any]:
    wide = np.full((4, 12), 99.0, np.float32)
    wide[::2, ::3] = array
    return wide[::2, ::3]


ARRAYS = {
    "float32": WEIGHT,
    "float64": WEIGHT.astype(np.float64),
    "float16": WEIGHT.astype(np.float16),
    "big-endian": WEIGHT.astype(">f4"),
    "long-double": WEIGHT.astype(np.longdouble),
    "list": WEIGHT.tolist(),
    "fortran": np.asfortranarray(WEIGHT),
    "backwards": WEIGHT[:, ::-1].copy()[:, ::-1],
    "strided": _strided(WEIGHT),
    "read-only": _frozen(WEIGHT),
    "torch": torch.tensor(WEIGHT),
    "bfloat16": torch.tensor(WEIGHT).bfloat16(),
    "half": torch.tensor(WEIGHT).half(),
    "double": torch.tensor(WEIGHT).double(),
    "float8": torch.tensor(WEIGHT).to(torch.float8_e4m3fn),
    "requires-grad": torch.tensor(WEIGHT, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.tensor(WEIGHT).bfloat16()),
    "transposed": torch.tensor(WEIGHT.T.copy()).t(),
    "torch-strided": torch.tensor(np.repeat(WEIGHT, 2, axis=1))[:, ::2],
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_magnitudes_do_not_depend_on_the_container(array: Any) -> None:
    """Type, memory order, writability and gradients of the input change no score."""
    scores = magnitude(array)
    assert np.array_equal(scores, np.abs(WEIGHT))
    assert scores.dtype in (np.float32, np.float64)
    assert scores.flags.c_contiguous
    assert scores.flags.writeable
    assert np.array_equal(as_scores(scores), scores)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (WEIGHT.astype(np.float16), np.float32),
        (torch.tensor(WEIGHT).bfloat16(), np.float32),
        (WEIGHT, np.float32),
        (WEIGHT.astype(np.float64), np.float64),
        (WEIGHT.astype(np.int32), np.float64),
        (WEIGHT > 0, np.float32),
    ],
    ids=["half", "bfloat16", "single", "double", "int", "bool"],
)
def test_scores_are_as_wide_as_exactness_needs(array: Any, dtype: type) -> None:
    """Narrow floats become float32, integers and doubles float64: nothing is rounded."""
    assert magnitude(array).dtype == dtype


def test_the_most_negative_integer_has_a_magnitude() -> None:
    """-128 in int8 scores 128: the absolute value is taken after widening."""
    weight = np.array([[-128, 127, 0, 1]], np.int8)
    assert magnitude(weight).tolist() == [[128.0, 127.0, 0.0, 1.0]]


def test_booleans_count_as_zero_and_one() -> None:
    """A boolean array scores 1 where true."""
    assert magnitude([[True, False]]).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("make", [as_scores, magnitude], ids=["scores", "weight"])
def test_inputs_are_not_shared(make: Any) -> None:
    """What comes back is private: changing it changes neither arrays nor tensors."""
    array, tensor = np.abs(WEIGHT), torch.tensor(np.abs(WEIGHT))
    make(array)[:] = 0
    make(tensor)[:] = 0
    assert np.array_equal(array, np.abs(WEIGHT))
    assert np.array_equal(tensor.numpy(), np.abs(WEIGHT))


def test_an_expanded_tensor_is_not_written_through() -> None:
    """A tensor whose rows are one row in memory is scored like its contiguous copy."""
    tensor = torch.tensor(WEIGHT[:1]).expand(3, 4)
    assert np.array_equal(magnitude(tensor), np.abs(np.repeat(WEIGHT[:1], 3, axis=0)))
    assert np.array_equal(tensor[0].numpy(), WEIGHT[0])


def test_channels_last_is_a_matter_of_memory_alone() -> None:
    """A convolution weight in channels_last scores by its logical axes."""
    weight = torch.randn(4, 8, 3, 3, generator=torch.Generator().manual_seed(0))
    scores = magnitude(weight.to(memory_format=torch.channels_last))
    assert np.array_equal(scores, weight.abs().numpy())


def test_to_numpy_widens_exactly() -> None:
    """Every bfloat16 number is a float32 number."""
    tensor = torch.randn(64, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert np.array_equal(to_numpy(tensor), tensor.float().numpy())


@pytest.mark.parametrize(("columns", "added"), [(4, 0), (5, 3), (1, 3), (7, 1)])
@pytest.mark.parametrize("taps", [(), (3, 3)], ids=str)
def test_padding_appends_zero_columns(columns: int, added: int, taps: tuple[int, ...]) -> None:
    """Zero columns come last and complete the group; what fits is returned as it is."""
    scores = np.ones((2, columns, *taps), np.float32)
    padded = pad_to(scores, (2, columns + added, *taps))
    assert padded.shape == (2, columns + added, *taps)
    assert (padded[:, :columns] == 1).all()
    assert (padded[:, columns:] == 0).all()
    assert added or padded is scores


def _masked(mask: Any) -> Any:
    return np.ma.masked_array(np.abs(WEIGHT), mask=mask)


@pytest.mark.parametrize("make", [as_scores, frozen_scores, magnitude])
def test_masked_entries_are_refused(make: Any) -> None:
    """A masked entry has no value: the error names the way out; an empty mask does not matter."""
    with pytest.raises(ScoresError, match=r"masked.*\.filled\(0\)"):
        make(_masked(np.eye(2, 4)), "w")
    with pytest.raises(ScoresError, match="masked"):
        make(list(_masked(np.eye(2, 4))), "w")
    scores = make(_masked(np.zeros((2, 4))), "w")
    assert type(scores) is np.ndarray
    assert np.array_equal(scores, np.abs(WEIGHT))


@pytest.mark.parametrize("make", [as_scores, frozen_scores, magnitude])
@pytest.mark.parametrize(
    "rows", [[[1.0, 2.0], [1.0]], [torch.ones(2), torch.ones(3)], [np.ones(2), np.ones((2, 2))]]
)
def test_rows_of_different_lengths_are_refused(make: Any, rows: Any) -> None:
    """Ragged rows are no weight and no scores; the error names the tensor, in one line."""
    with pytest.raises(ScoresError, match=r"(weight|scores) of w .*rows equally long") as caught:
        make(rows, "w")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [as_scores, magnitude])
def test_nothing_is_no_weight(make: Any) -> None:
    """None is told as such, with what to give instead."""
    with pytest.raises(ScoresError, match=r"(weight|scores) of w is None; .*scores="):
        make(None, "w")


def test_long_doubles_convert_without_a_warning() -> None:
    """What float64 cannot hold is an error with a place, what it rounds to zero is nothing."""
    huge = WEIGHT.astype(np.longdouble)
    huge[1, 2] = np.longdouble(2) ** 8000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ScoresError, match=r"\(1, 2\)"):
            magnitude(huge)
        assert magnitude(1 / huge)[1, 2] == 0
