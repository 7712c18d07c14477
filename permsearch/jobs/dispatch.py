"""The loop that all engines share: tasks in turn, within the memory there is, failures repeated."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from permsearch.errors import WorkerDied
from permsearch.jobs.schedule import next_fitting
from permsearch.jobs.task import Outcome, Task

_log = logging.getLogger(__name__)

Started: TypeAlias = Callable[[Task], None]
Outcomes: TypeAlias = Generator[Outcome, None, None]
"""Outcomes as they come; closing it ends what is running."""

# A worker that died may have been the victim of another one's memory, a file that could not be
# read may be there again when storage has recovered; wrong values stay wrong.
_AGAIN: dict[type[Exception], int] = {WorkerDied: 2, MemoryError: 1, OSError: 1}
_ALONE = (WorkerDied, MemoryError)


class Slots(Protocol):
    """The places of an engine in which tasks run.

    Attributes
    ----------
    size
        How many tasks run at the same time.
    """

    size: int

    def start(self, task: Task) -> None:
        """Begin a task; called only while fewer than `size` run."""

    def wait(self) -> Outcome:
        """Return what came of a task that began, as soon as there is one."""


@dataclass(slots=True)
class _Queue:
    """What waits, what runs, and what failed before."""

    waiting: list[Task]
    running: dict[str, Task] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    alone: set[str] = field(default_factory=set)

    def begin(self, memory: int | None) -> Task | None:
        task = next_fitting(self.waiting, self.running.values(), memory, self.alone)
        if task is not None:
            self.waiting.remove(task)
            self.running[task.name] = task
        return task

    def repeats(self, outcome: Outcome) -> bool:
        """Take a finished task out; put it back, behind all others, if it is worth a repetition."""
        task = self.running.pop(outcome.task.name)
        error = outcome.error
        if error is None:
            return False
        self.failures[task.name] += 1
        allowed = max((n for kind, n in _AGAIN.items() if isinstance(error, kind)), default=0)
        if self.failures[task.name] > allowed:
            return False
        if isinstance(error, _ALONE):
            self.alone.add(task.name)
        self.waiting.append(task)
        return True


def dispatch(slots: Slots, tasks: Sequence[Task], memory: int | None, started: Started) -> Outcomes:
    """Yield what comes of tasks, as they finish.

    Tasks whose estimates exceed the memory left wait. A task whose worker died is repeated twice,
    one that ran out of memory or whose files could not be read once; after all others, and alone
    where memory may have been the reason.

    Parameters
    ----------
    slots
        Where they run.
    tasks
        The tasks, in the order in which they should begin.
    memory
        Bytes for all that run at the same time; None: no limit.
    started
        Called with each task that begins.
    """
    queue = _Queue(list(tasks))
    while queue.waiting or queue.running:
        while len(queue.running) < slots.size and (task := queue.begin(memory)) is not None:
            slots.start(task)
            started(task)
        outcome = slots.wait()
        if queue.repeats(outcome):
            _log.warning("%s: %s; it is tried again", outcome.task.name, outcome.error)
        else:
            yield outcome
