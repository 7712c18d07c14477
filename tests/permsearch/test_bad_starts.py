"""Starts, seeds and criteria that are none end at once, like any bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import permsearch as ps
from permsearch.errors import (
    OrderError,
    PatternError,
    PermsearchError,
    ProblemError,
    ScoresError,
    UnknownName,
)
from tests import reference
from tests.permsearch.test_bad_input import WEIGHT, message, search, spoilt


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (np.arange(12), "12 entries, but 16"),
        (np.zeros(16, int), "names item 0 16 times"),
        (np.arange(16) + 1, "= 16 lies outside 0..15"),
        (np.arange(16.0), "integer array"),
        (np.arange(16).reshape(4, 4), "1-D"),
        ("identity", "1-D"),
        ({"cols": np.zeros(16, int)}, "names item 0 16 times"),
    ],
    ids=["short", "double", "outside", "float", "matrix", "text", "mapping"],
)
def test_wrong_starts(start: Any, part: str) -> None:
    """The variable and the first offending entry are named."""
    text = message(OrderError, WEIGHT, start=start)
    assert "'cols'" in text
    assert part in text


def test_starts_of_unknown_variables() -> None:
    """A misspelt axis in a start is named."""
    assert "did you mean 'cols'" in message(UnknownName, WEIGHT, start={"col": np.arange(16)})


def test_starts_outside_their_domain() -> None:
    """An order that the domain forbids is no start."""
    halves = ps.Segments((8, 8))
    text = message(OrderError, WEIGHT, start=np.arange(16)[::-1], permute={"cols": halves})
    assert "Segments" in text


@pytest.mark.parametrize(
    "seed", [-1, 1.5, "1", None, True, np.array([1]), np.bool_(True)], ids=repr
)
def test_wrong_seeds(seed: Any) -> None:
    """A seed is a whole number from zero on; the value is named."""
    with pytest.raises(ValueError, match="seed must be an integer >= 0") as caught:
        search(WEIGHT, seed=seed)
    assert repr(seed) in str(caught.value)
    with pytest.raises(ValueError, match="seed must be an integer >= 0"):
        ps.random_solution(ps.single(WEIGHT, "2:4"), seed=seed)


@pytest.mark.parametrize("stop", [100, 2.5, "5s", ps.MaxSteps], ids=repr)
def test_what_is_no_criterion(stop: Any) -> None:
    """A bare number does not say whether it means steps or seconds."""
    problem = ps.single(WEIGHT, "2:4")
    for call in (
        lambda: search(WEIGHT, stop=stop),
        lambda: ps.solve(problem, stop=stop),
        lambda: ps.bound(problem, stop=stop),
        lambda: ps.bound(problem, "row", stop=stop),
        lambda: ps.search_all({"w": WEIGHT}, "2:4", stop=stop),
    ):
        with pytest.raises(ValueError, match=r"MaxSteps.*MaxSeconds"):
            call()


def test_nothing_is_computed_before_the_input_is_checked() -> None:
    """A wrong name is told before a weight is looked at that is wrong as well."""
    assert "unknown pattern" in message(UnknownName, spoilt(np.nan), "2;4")


def test_errors_are_of_one_family() -> None:
    """Everything that is raised on purpose can be caught by one name, and as a ValueError."""
    kinds = (OrderError, PatternError, ProblemError, ScoresError, UnknownName)
    assert all(issubclass(kind, PermsearchError) and issubclass(kind, ValueError) for kind in kinds)
    assert reference.is_permutation(search(WEIGHT).cols.tolist())
