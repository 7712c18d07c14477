"""Stopping criteria are pure predicates over progress, and state how far a run may go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permsearch.stop import (
    AllOf,
    AnyOf,
    Horizon,
    MaxCpuSeconds,
    MaxSeconds,
    MaxSteps,
    Never,
    NoImprovement,
    Progress,
    ReachedScore,
    StoppingCriterion,
)

NOW = Progress(step=10, elapsed=2.0, cpu=3.0, best=5.0, since_best=4)
SIMPLE: list[tuple[StoppingCriterion, StoppingCriterion]] = [
    (MaxSteps(10), MaxSteps(11)),
    (MaxSeconds(2.0), MaxSeconds(2.1)),
    (MaxCpuSeconds(3.0), MaxCpuSeconds(3.1)),
    (NoImprovement(4), NoImprovement(5)),
    (ReachedScore(5.0), ReachedScore(5.1)),
]
YES, NO = (MaxSteps(10), MaxSteps(11))


@pytest.mark.parametrize(("fires", "waits"), SIMPLE, ids=repr)
def test_each_fires_at_its_mark(fires: StoppingCriterion, waits: StoppingCriterion) -> None:
    """A criterion fires at its number and not before, as often as it is asked."""
    for _ in range(3):
        assert fires(NOW)
        assert not waits(NOW)
        assert not Never()(NOW)


@given(answers=st.lists(st.booleans(), min_size=1, max_size=5))
def test_combinations_are_any_and_all(answers: list[bool]) -> None:
    """AnyOf is or, AllOf is and, nested ones too."""
    parts = [YES if answer else NO for answer in answers]
    assert AnyOf(*parts)(NOW) == any(answers)
    assert AllOf(*parts)(NOW) == all(answers)
    assert AnyOf(AllOf(*parts), AnyOf(*parts))(NOW) == any(answers)


def test_horizons_are_what_may_be_counted_on() -> None:
    """AnyOf takes the nearest of a kind; AllOf the farthest, where every part states one."""
    assert MaxSteps(7).horizon == Horizon(steps=7)
    assert MaxSeconds(2).horizon == Horizon(seconds=2)
    assert MaxCpuSeconds(2).horizon == Horizon(cpu=2)
    assert Never().horizon == NoImprovement(3).horizon == ReachedScore(1).horizon == Horizon()
    mixed = AnyOf(MaxSteps(7), MaxSteps(9), MaxSeconds(2), ReachedScore(1))
    assert mixed.horizon == Horizon(steps=7, seconds=2)
    assert AllOf(MaxSteps(7), MaxSteps(9)).horizon == Horizon(steps=9)
    assert AllOf(MaxSteps(7), MaxSeconds(2)).horizon == Horizon()
    assert AllOf(MaxSteps(7), Never()).horizon == Horizon()


def test_criteria_are_values() -> None:
    """Equal criteria are equal and hash alike, so options that hold them do too."""
    assert MaxSteps(3) == MaxSteps(3) != MaxSteps(4)
    assert AnyOf(MaxSteps(3), Never()) == AnyOf(MaxSteps(3), Never())
    assert len({AllOf(MaxSteps(3)), AllOf(MaxSteps(3)), MaxSeconds(1), MaxSeconds(1.0)}) == 2
    assert all(isinstance(c, StoppingCriterion) for pair in SIMPLE for c in pair)


@pytest.mark.parametrize("kind", [MaxSteps, MaxSeconds, MaxCpuSeconds, NoImprovement])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_negative_and_endless_limits_are_refused(kind: type, value: float) -> None:
    """The error names the number; Never is the way to say never."""
    with pytest.raises(ValueError, match=f"must be .* >= 0, got {value}"):
        kind(value)


@pytest.mark.parametrize("kind", [MaxSteps, NoImprovement])
@pytest.mark.parametrize("value", [2.5, 1e3, True, "3"], ids=repr)
def test_steps_are_whole_numbers(kind: type, value: object) -> None:
    """Fractions, booleans and text are no number of steps."""
    with pytest.raises(ValueError, match="steps must be an integer >= 0"):
        kind(value)
    assert kind(np.int64(3)) == kind(3)


@pytest.mark.parametrize("kind", [MaxSeconds, MaxCpuSeconds])
def test_seconds_are_numbers(kind: type) -> None:
    """Text is no number of seconds, and the error says which argument it was."""
    with pytest.raises(ValueError, match="seconds must be a finite number"):
        kind("3")


def test_a_score_must_be_a_number() -> None:
    """A score that nothing can reach or compare with is refused."""
    with pytest.raises(ValueError, match="score must be a number, got nan"):
        ReachedScore(float("nan"))


@pytest.mark.parametrize("kind", [AnyOf, AllOf])
def test_combinations_need_parts(kind: type) -> None:
    """A combination of nothing is an error; so is a part that is no criterion."""
    with pytest.raises(ValueError, match="at least one criterion"):
        kind()
    with pytest.raises(ValueError, match="MaxSteps"):
        kind(100)
