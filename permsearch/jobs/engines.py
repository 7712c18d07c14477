"""What runs tasks, by name: this process, threads, processes, a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from permsearch.errors import unknown
from permsearch.jobs.dispatch import Outcomes, Started
from permsearch.jobs.local import Serial, Threads
from permsearch.jobs.machine import cores, free_memory
from permsearch.jobs.processes import Processes
from permsearch.jobs.task import Task, Work

ENGINES = ("processes", "threads", "ray")
_SHARE = 0.8  # of the free memory, for the estimates of what runs


class Executor(Protocol):
    """Something that runs tasks which depend on nothing but their payloads.

    Attributes
    ----------
    workers
        How many run at the same time; 0 where that is not known yet.
    """

    @property
    def workers(self) -> int:
        """How many tasks run at the same time; 0 where that is not known yet."""

    def run(self, work: Work, tasks: Sequence[Task], started: Started) -> Outcomes:
        """Yield an outcome for each task, as they finish, in any order.

        Closing the iterator ends what is running. No task's error ends the iteration.

        Parameters
        ----------
        work
            What makes a part of a payload.
        tasks
            What to do.
        started
            Called with each task that begins.
        """


def executor(
    workers: int = 1,
    *,
    engine: str = "processes",
    memory: int | None = None,
    address: str | None = None,
    send: bool = False,
) -> Executor:
    """Return what runs tasks.

    Parameters
    ----------
    workers
        How many at the same time; 0: one for each core. One, and not on Ray: in this process.
    engine
        "processes", "threads" or "ray".
    memory
        Bytes for the tasks that run on this machine at the same time; None: most of what is free.
    address
        Of a Ray cluster that runs; None: one is started on this machine, and ended afterwards.
    send
        Whether Ray's workers get weights through its object store instead of reading files.

    Raises
    ------
    UnknownName
        There is no such engine.

    Examples
    --------
    >>> from permsearch.jobs import executor
    >>> executor(4, memory=8 << 30)
    Processes(workers=4, memory=8589934592, threads=None)
    """
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if engine == "ray":
        from permsearch.jobs.on_ray import OnRay

        return OnRay(workers, address, send)
    count = workers or cores()
    if count == 1:
        return Serial()
    budget = int(_SHARE * free_memory()) if memory is None else memory
    return Threads(count, budget) if engine == "threads" else Processes(count, budget)
