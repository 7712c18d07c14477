"""Tasks in this process: one after another, or in threads."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from permsearch.jobs.dispatch import Outcomes, Started, dispatch
from permsearch.jobs.machine import cores
from permsearch.jobs.schedule import largest_first
from permsearch.jobs.task import Outcome, Task, Work, call, prepare


@dataclass(frozen=True, slots=True)
class Serial:
    """Runs tasks one after another, in the order in which they are given; an `Executor`."""

    workers: int = 1

    def run(self, work: Work, tasks: Sequence[Task], started: Started) -> Outcomes:
        """Yield what comes of tasks; see `Executor`."""
        yield from dispatch(_Here(work), tasks, None, started)


class _Here:
    """The one place in this very thread."""

    size = 1

    def __init__(self, work: Work) -> None:
        self._work = work
        self._next: Task | None = None
        self._ready = False

    def start(self, task: Task) -> None:
        """Remember the task: whoever waits for it does it."""
        self._next = task

    def wait(self) -> Outcome:
        """Do the task."""
        assert self._next is not None
        task, self._next = self._next, None
        if not self._ready:
            prepare(self._work, task.payload)
            self._ready = True
        return outcome_of(self._work, task)


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs tasks in threads of this process; an `Executor`.

    Kernels let go of the interpreter and run side by side; what is plain Python takes turns.
    Starting costs nothing, and arrays in memory need not be sent. A thread cannot be stopped from
    outside: leaving a run early waits for the tasks that have begun.

    Parameters
    ----------
    workers
        How many threads.
    memory
        Bytes for all tasks that run at the same time, by their own estimates; None: no limit.
    """

    workers: int
    memory: int | None = None

    def run(self, work: Work, tasks: Sequence[Task], started: Started) -> Outcomes:
        """Yield what comes of tasks, as they finish; see `Executor`."""
        size = min(self.workers, len(tasks))
        if not size:
            return
        prepare(work, tasks[0].payload)
        threads = max(1, cores() // size)
        with ThreadPoolExecutor(size, initializer=_limit, initargs=(threads,)) as pool:
            slots = _Pool(pool, size, work)
            yield from dispatch(slots, largest_first(tasks), self.memory, started)


class _Pool:
    """The threads, and a queue of what they finished."""

    def __init__(self, pool: ThreadPoolExecutor, size: int, work: Work) -> None:
        self.size = size
        self._pool = pool
        self._work = work
        self._finished: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def start(self, task: Task) -> None:
        """Hand a task to a thread."""
        self._pool.submit(lambda: self._finished.put(outcome_of(self._work, task)))

    def wait(self) -> Outcome:
        """Return the next that is finished."""
        return self._finished.get()


def _limit(threads: int) -> None:
    """Let the kernels of this thread use that many threads of their own."""
    import numba

    numba.set_num_threads(min(threads, numba.get_num_threads()))


def outcome_of(work: Work, task: Task) -> Outcome:
    """Return what comes of a task."""
    found = call(work, task.payload)
    return Outcome(task, error=found) if isinstance(found, Exception) else Outcome(task, found)
