"""A job from its tasks to their parts, whatever stops it in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

from permsearch.errors import PermsearchError
from permsearch.io.parts import Part
from permsearch.jobs.dispatch import Started
from permsearch.jobs.engines import Executor
from permsearch.jobs.journal import Journal
from permsearch.jobs.task import Outcome, Task, Work

Hold = Callable[[], AbstractContextManager[object]]

_SHOWN = 3  # names of tasks that failed beside the first


def work_through(
    tasks: Sequence[Task],
    work: Work,
    executor: Executor,
    journal: Journal | None = None,
    *,
    started: Started = lambda task: None,
    finished: Started = lambda task: None,
    hold: Hold = nullcontext,
) -> dict[str, Part]:
    """Return the part of every task, by name, in the order of the tasks.

    The result depends on neither the executor nor on how often the job was stopped.

    Parameters
    ----------
    tasks, work
        What to do; names are unique.
    executor
        Where to do it.
    journal
        Where finished tasks are kept, and those that are kept are not done again; None: nowhere.
    started, finished
        Called with each task that begins, and that is finished and kept.
    hold
        Returns a context in which an interrupt waits: storing a part and telling it belong
        together.

    Raises
    ------
    PermsearchError
        The first error of a task that its repetitions did not heal, when all others are finished.
        An error of the journal, at once.

    Examples
    --------
    >>> import permsearch as ps
    >>> from permsearch.jobs import executor, work_through
    >>> from permsearch.jobs.tensors import TensorSearch, tensor_tasks
    >>> from permsearch.io import open_tensors
    >>> from permsearch.search_all import SearchOptions
    >>> source = open_tensors({"w": ps.instances.gaussian(16, 8, seed=0)})
    >>> options = SearchOptions(ps.NM(2, 4), "none")
    >>> work = TensorSearch(source, options)
    >>> tasks = tensor_tasks(map(source.info, source.names()), options)
    >>> work_through(tasks, work, executor(1))["w"].record["shape"]
    (16, 8)
    """
    done = {}
    for task, part in each_part(tasks, work, executor, journal, started=started, hold=hold):
        done[task.name] = part
        finished(task)
    return {task.name: done[task.name] for task in tasks}


def each_part(
    tasks: Sequence[Task],
    work: Work,
    executor: Executor,
    journal: Journal | None = None,
    *,
    started: Started = lambda task: None,
    hold: Hold = nullcontext,
) -> Iterator[tuple[Task, Part]]:
    """Yield tasks and parts: first those that the journal has, then others as they are finished.

    See `work_through`.
    """
    before = {} if journal is None else journal.finished(tasks)
    for task in tasks:
        if task.name in before:
            yield task, before[task.name].load()
    left = [task for task in tasks if task.name not in before]
    failed: list[Outcome] = []
    with closing(executor.run(work, left, started)) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                failed.append(outcome)
                continue
            with hold():
                if journal is not None:
                    journal.add(outcome.task, outcome.value())
                yield outcome.task, outcome.value()
    if failed:
        raise first_error(failed)


def first_error(failed: Sequence[Outcome]) -> Exception:
    """Return the first error of several, which tells how many there are beside it."""
    error, others = failed[0].error, failed[1:]
    assert error is not None
    if not others or not isinstance(error, PermsearchError):
        return error
    shown = ", ".join(outcome.task.name for outcome in others[:_SHOWN])
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    told = type(error)(f"{str(error).rstrip('.')}; also failed: {shown}{more}.")
    told.__cause__ = error
    return told
