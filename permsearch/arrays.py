"""Arrays as users have them, checked once at the edge: numpy, torch, and what behaves alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from permsearch.errors import ScoresError
from permsearch.patterns import Scores

WEIGHT, SCORES = "the weight", "the array of scores"  # what errors call an array

_EXACT = float(2**53)
_LARGEST = 2.0**1000  # head-room for the few sums that a search adds up


def _called(name: str, what: str) -> str:
    return f"{what} of {name}" if name else what


def _check_kind(array: Any, called: str) -> None:
    """Raise ScoresError for what holds arrays rather than being one."""
    if hasattr(array, "state_dict"):
        raise ScoresError(
            f"{called} is a module ({type(array).__name__}); give its .weight, or all "
            "of its weights with search_all(module.state_dict(), ...)."
        )
    if isinstance(array, str | os.PathLike):
        raise ScoresError(
            f"{called} is a path, {os.fspath(array)!r}; search all tensors of a file with "
            "search_all(path, ...), or give one: permsearch.io.open_tensors(path).read(name)."
        )
    if isinstance(array, Mapping):
        raise ScoresError(
            f"{called} is a mapping ({type(array).__name__}); search all of its arrays with "
            "search_all(mapping, ...), or give one of them."
        )


def to_numpy(array: Any, name: str = "", what: str = WEIGHT) -> NDArray[Any]:
    """Return a numpy view or copy of an array or of a tensor of any torch dtype and device.

    Tensors are recognised by their methods, so torch need not be installed. Floats narrower
    than 32 bits (bfloat16, float16, float8) are widened to float32, which is exact. Errors call
    it what it is and by its name.
    """
    called = _called(name, what)
    _check_kind(array, called)
    if hasattr(array, "detach"):
        array = array.detach()
        dtype = str(array.dtype)
        if "float" in dtype and dtype not in {"torch.float32", "torch.float64"}:
            array = array.float()
        try:
            array = array.cpu().numpy()
        except (TypeError, RuntimeError) as error:
            raise ScoresError(
                f"{called} is a tensor that cannot be read as a dense array: {error}"
            ) from None
    if array is None:
        raise ScoresError(
            f"{called} is None; give an array (out, in), or scores of its shape as scores=."
        )
    if _is_masked(array):
        raise ScoresError(
            f"{called} has masked entries, which have no value; give them one first, "
            "such as 0 with .filled(0)."
        )
    try:
        out: NDArray[Any] = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ScoresError(
            f"{called} is no array of numbers, all rows equally long: {reason}."
        ) from None
    if out.dtype.name.startswith(("bfloat", "float8", "float16")):
        out = out.astype(np.float32)
    if out.dtype == object or out.dtype.kind not in "fiub":
        raise ScoresError(
            f"{called} has dtype {out.dtype}; real numbers are needed "
            "(take .real, .abs() or convert it first)."
        )
    return out


def _is_masked(array: Any) -> bool:
    rows = array if isinstance(array, list | tuple) else (array,)
    return any(np.ma.is_masked(row) for row in rows)


def shape_of(array: Any, name: str = "") -> tuple[int, ...]:
    """Return the shape of an array, a tensor or nested lists, without converting the first two."""
    shape = getattr(array, "shape", None)
    return to_numpy(array, name).shape if shape is None else tuple(shape)


def _as_float(array: NDArray[Any], called: str) -> Scores:
    if array.dtype.kind in "iu" and array.size:
        low, high = int(array.min()), int(array.max())
        if max(-low, high) > _EXACT:
            raise ScoresError(
                f"{called} holds the integer {high if high > -low else low}, beyond "
                "2**53: it would not survive the conversion to float64; scale it down first."
            )
    wide = array.dtype.kind in "iu" or array.dtype.itemsize > 4
    with np.errstate(over="ignore", under="ignore"):  # infinities are told, with their place
        return array.astype(np.float64 if wide else np.float32)


def _check(array: Scores, name: str, what: str) -> None:
    called = _called(name, what)
    if array.ndim < 2:
        raise ScoresError(
            f"{called} has shape {array.shape}; at least two axes (out, in) are needed."
        )
    if not array.size:
        raise ScoresError(f"{called} has shape {array.shape} and is empty.")
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.abs(array).sum(dtype=np.float64))
    if not total < _LARGEST:
        bad = np.argwhere(~np.isfinite(array))
        if not len(bad):
            raise ScoresError(
                f"the sum of {_called(name, 'the scores')} comes too near to what float64 can "
                "hold; multiply them by 2**-100."
            )
        at = tuple(int(i) for i in bad[0])
        raise ScoresError(
            f"{called} holds {array[at]} at index {at} ({len(bad)} entries are not "
            "finite); repair or exclude it before the search."
        )
    if what == SCORES and float(array.min()) < 0:
        at = tuple(int(i) for i in np.unravel_index(int(array.argmin()), array.shape))
        raise ScoresError(
            f"{_called(name, 'scores')} must be >= 0, got {array[at]} at index {at}; pass a "
            "weight without scores= to score it by magnitude, or take the absolute value."
        )


def as_scores(array: Any, name: str = "") -> Scores:
    """Return a private float32 or float64 copy of scores, checked to be finite and >= 0.

    Parameters
    ----------
    array
        Array or tensor (out, in, *k) of a real dtype; float64 and integers become float64, all
        else float32.
    name
        How error messages call the tensor.

    Raises
    ------
    ScoresError
        Naming the tensor, the first offending value and its index.

    Examples
    --------
    >>> as_scores([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    scores = _as_float(to_numpy(array, name, SCORES), _called(name, SCORES))
    _check(scores, name, SCORES)
    return np.ascontiguousarray(scores)


def frozen_scores(array: Any, name: str = "") -> Scores:
    """Return scores that nobody writes to: a private copy, read-only.

    Scores that are read-only and no view of anything are such already and are taken as they are.

    Raises
    ------
    ScoresError
        Naming the tensor, the first offending value and its index.
    """
    if not _is_frozen(array):
        scores = as_scores(array, name)
        scores.setflags(write=False)
        return scores
    frozen: Scores = array
    _check(frozen, name, SCORES)
    return frozen


def _is_frozen(array: Any) -> bool:
    if type(array) is not np.ndarray or array.dtype not in (np.float32, np.float64):
        return False
    return array.flags.owndata and not array.flags.writeable


def magnitude(weight: Any, name: str = "") -> Scores:
    """Return the absolute values of a weight as scores.

    Parameters
    ----------
    weight
        Array or tensor (out, in, *k) of a real dtype, finite; it is not changed. float64 and
        integers give float64, all else float32.
    name
        How error messages call the tensor.

    Raises
    ------
    ScoresError
        Naming the tensor, the first offending value and its index.

    Examples
    --------
    >>> magnitude([[-1.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """
    array = _as_float(to_numpy(weight, name), _called(name, WEIGHT))
    _check(array, name, WEIGHT)
    return np.ascontiguousarray(np.abs(array))


def pad_to(array: Scores, shape: tuple[int, ...]) -> Scores:
    """Return scores with zeros appended on each axis up to a shape; the input where it fits."""
    if array.shape == shape:
        return array
    sizes = zip(array.shape, shape, strict=True)
    return np.pad(array, [(0, wanted - size) for size, wanted in sizes])
