"""Which task begins next, and which share of a job is whose: pure functions of costs and names."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

from permsearch.io.shares import Share
from permsearch.jobs.task import Task


def largest_first(tasks: Iterable[Task]) -> list[Task]:
    """Return tasks by falling cost; among equals in the order of their names."""
    return sorted(tasks, key=lambda task: (-task.cost, task.name))


def next_fitting(
    waiting: Sequence[Task], running: Collection[Task], memory: int | None, alone: Collection[str]
) -> Task | None:
    """Return the first waiting task whose memory fits beside what runs, or None.

    Parameters
    ----------
    waiting, running
        The tasks that did not begin, in the order in which they should, and those that run.
    memory
        Bytes for all that run together; None: no limit. What does not fit at all runs alone, for
        an estimate must not keep a job from its end.
    alone
        Names of tasks that run only when nothing else does, and nothing beside them.
    """
    if not running:
        return next(iter(waiting), None)
    if any(task.name in alone for task in running):
        return None
    used = sum(task.memory for task in running)
    for task in waiting:
        if task.name not in alone and (memory is None or used + task.memory <= memory):
            return task
    return None


def share_of(tasks: Sequence[Task], share: Share | None) -> list[Task]:
    """Return the tasks of a share, in their order; all without one.

    Shares are of about equal cost, and depend on names and costs alone: every process of an array
    finds the same ones. The largest task goes to the share that has least so far, and so on.
    """
    if share is None:
        return list(tasks)
    loads = [(0.0, index) for index in range(1, share.count + 1)]
    mine = set()
    for task in largest_first(tasks):
        load, index = heapq.heappop(loads)
        heapq.heappush(loads, (load + task.cost, index))
        if index == share.index:
            mine.add(task.name)
    return [task for task in tasks if task.name in mine]
