"""Many pieces of work on many cores or machines, kept on the disk one by one as they finish."""

from __future__ import annotations

from permsearch.io.parts import Part
from permsearch.io.shares import Share
from permsearch.jobs.engines import Executor, executor
from permsearch.jobs.journal import Journal
from permsearch.jobs.schedule import share_of
from permsearch.jobs.task import Outcome, Task, Work
from permsearch.jobs.through import work_through

__all__ = [
    "Executor",
    "Journal",
    "Outcome",
    "Part",
    "Share",
    "Task",
    "Work",
    "executor",
    "share_of",
    "work_through",
]
