"""A piece of work, what does it, and what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from permsearch.io.parts import Part

Work: TypeAlias = Callable[[Any], Part]
"""A pure function of a task's payload: the same payload gives the same part, times apart.

It is pickled once for every worker: a frozen dataclass with `__call__` that holds paths and
options, not arrays. It may have a method `prepare(payload)`, which workers of this machine call
before their first task, to compile what the times told should not count.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work that depends on no other.

    Parameters
    ----------
    name
        Unique within the job.
    cost
        How much work it is, in any unit that the job's tasks share. The largest begins first.
    memory
        Bytes that a worker needs for it at the most.
    payload
        What the work is called with; small, and picklable.
    fingerprint
        Changes whenever the inputs do: what is finished counts only with the same one.
    """

    name: str
    cost: float = 1.0
    memory: int = 0
    payload: Any = None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of a task: a part, or the error that ended it for good."""

    task: Task
    part: Part | None = None
    error: Exception | None = None

    def value(self) -> Part:
        """Return the part, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.part is not None
        return self.part


def call(work: Work, payload: Any) -> Part | Exception:
    """Return what a work makes of a payload, or the error; a traceback goes along as a note."""
    try:
        return work(payload)
    except Exception as error:  # noqa: BLE001 - the owner of the job hears of it
        import traceback

        error.add_note(f"in a worker:\n{''.join(traceback.format_exception(error))}")
        return error


def prepare(work: Work, payload: Any) -> None:
    """Let a work compile what it needs, if it has anything to compile.

    Whatever is wrong with the payload is left for its own task to tell.
    """
    get_ready = getattr(work, "prepare", None)
    if get_ready is not None:
        with contextlib.suppress(Exception):
            get_ready(payload)
