"""Which task runs when and whose it is: nothing twice, nothing lost, never too much memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permsearch.errors import WorkerDied
from permsearch.io.parts import Part
from permsearch.io.shares import Share, ShareError
from permsearch.jobs.dispatch import dispatch
from permsearch.jobs.schedule import largest_first, next_fitting, share_of
from permsearch.jobs.task import Outcome, Task

TASKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12).map(
    lambda pairs: [Task(f"t{n}", float(c), m) for n, (c, m) in enumerate(pairs)]
)


class Fake:
    """Slots that finish what runs in any order, and remember what ran side by side."""

    def __init__(self, size: int, seed: int, mishaps: dict[str, list[Exception]]) -> None:
        self.size = size
        self.random = random.Random(seed)
        self.mishaps = mishaps
        self.running: list[Task] = []
        self.begun: list[tuple[str, tuple[str, ...]]] = []
        self.most = 0

    def start(self, task: Task) -> None:
        """Remember what ran side by side."""
        self.running.append(task)
        self.begun.append((task.name, tuple(t.name for t in self.running)))
        assert len(self.running) <= self.size
        if len(self.running) > 1:
            self.most = max(self.most, sum(t.memory for t in self.running))

    def wait(self) -> Outcome:
        """Finish any of what runs, with its next mishap if it has one."""
        task = self.running.pop(self.random.randrange(len(self.running)))
        errors = self.mishaps.get(task.name)
        return Outcome(task, error=errors.pop(0)) if errors else Outcome(task, Part({}))


@given(TASKS, st.integers(1, 4), st.integers(0, 12), st.integers(0, 99))
def test_everything_runs_once_within_the_memory(
    tasks: list[Task], size: int, memory: int, seed: int
) -> None:
    """Each task ends exactly once; what runs side by side fits; too large a one runs alone."""
    slots = Fake(size, seed, {})
    ended = [outcome.task for outcome in dispatch(slots, tasks, memory, lambda task: None)]
    assert sorted(task.name for task in ended) == sorted(task.name for task in tasks)
    assert slots.most <= memory
    for name, beside in slots.begun:
        if next(task for task in tasks if task.name == name).memory > memory:
            assert beside == (name,)


@given(TASKS, st.integers(0, 99))
def test_without_limits_tasks_begin_in_their_order(tasks: list[Task], seed: int) -> None:
    """Largest first: with room for all, tasks begin by falling cost, equals by name."""
    slots = Fake(2, seed, {})
    list(dispatch(slots, largest_first(tasks), None, lambda task: None))
    begun = [name for name, _ in slots.begun]
    assert begun == [t.name for t in sorted(tasks, key=lambda task: (-task.cost, task.name))]


def test_what_fits_overtakes_what_waits() -> None:
    """A task that does not fit beside what runs lets smaller ones pass, and runs later."""
    small, large = Task("small", 1, 1), Task("large", 2, 9)
    assert next_fitting([large, small], [Task("runs", 3, 5)], 10, ()) == small
    assert next_fitting([large], [Task("runs", 3, 5)], 10, ()) is None
    assert next_fitting([large], [], 1, ()) == large


@pytest.mark.parametrize(
    ("errors", "tries"),
    [
        ([WorkerDied("x")], 2),
        ([WorkerDied("x"), WorkerDied("x")], 3),
        ([WorkerDied("x")] * 3, 3),
        ([MemoryError("x")], 2),
        ([OSError("x"), OSError("x")], 2),
        ([ValueError("x")], 1),
    ],
    ids=lambda value: str(value),
)
def test_failures_are_repeated_as_often_as_it_may_help(errors: list[Exception], tries: int) -> None:
    """Died twice, out of memory or unreadable once: tried again; wrong values at no time."""
    last = errors[-1] if len(errors) >= tries else None
    slots = Fake(2, 0, {"b": list(errors)})
    tasks = [Task(name) for name in "abcd"]
    found = {outcome.task.name: outcome for outcome in dispatch(slots, tasks, None, lambda t: None)}
    assert sum(name == "b" for name, _ in slots.begun) == tries
    assert found["b"].error is last
    assert all(found[name].error is None for name in "acd")


def test_a_victim_of_memory_runs_alone_and_last() -> None:
    """What died or ran out of memory is tried again when nothing else runs or waits."""
    slots = Fake(3, 1, {"a": [MemoryError()], "b": [WorkerDied("x")]})
    tasks = [Task(name) for name in "abcdef"]
    list(dispatch(slots, tasks, None, lambda task: None))
    again = slots.begun[len(tasks) :]
    assert sorted(name for name, _ in again) == ["a", "b"]
    assert all(beside == (name,) for name, beside in again)


@given(TASKS, st.integers(1, 6))
def test_shares_split_the_work_evenly(tasks: list[Task], count: int) -> None:
    """Shares hold each task once, in its order, and differ by no more than the largest task."""
    shares = [share_of(tasks, Share(index, count)) for index in range(1, count + 1)]
    assert sorted(t.name for share in shares for t in share) == sorted(t.name for t in tasks)
    for share in shares:
        assert [t for t in tasks if t in share] == share
    loads = [sum(task.cost for task in share) for share in shares]
    assert max(loads) - min(loads) <= max(task.cost for task in tasks)
    assert share_of(list(reversed(tasks)), Share(1, count)) == list(reversed(shares[0]))
    assert share_of(tasks, None) == tasks


@pytest.mark.parametrize(
    ("text", "words"),
    [("0/4", "count from 1 to 4"), ("5/4", "no share 5 of 4"), ("3", "give i/n"), ("a/b", "i/n")],
)
def test_impossible_shares_are_refused(text: str, words: str) -> None:
    """A share outside its count, or of another form, is an error that says how they count."""
    with pytest.raises(ShareError, match=words):
        Share.parse(text)
    assert Share.parse(" 3/16 ") == Share(3, 16)
