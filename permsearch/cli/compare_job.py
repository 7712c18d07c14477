"""A run of `permsearch compare`: rows as they come, tensor by tensor where several are at work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from permsearch.cli.interrupt import interrupts_wait
from permsearch.compare import compared
from permsearch.errors import FileError
from permsearch.io.select import Selection, Skipped
from permsearch.io.shares import Ended, Share
from permsearch.io.source import TensorSource
from permsearch.jobs import Executor, Journal, Task, share_of
from permsearch.jobs.local import Serial
from permsearch.jobs.tensors import TensorComparison, skipped_of, tensor_tasks
from permsearch.jobs.through import each_part
from permsearch.rows import Row
from permsearch.search_all import SearchOptions
from permsearch.streaming.tensor import TensorRows


@dataclass(frozen=True, slots=True)
class Comparing:
    """What is compared on which tensors, by whom, and where finished tensors are kept."""

    source: TensorSource
    selection: Selection
    solvers: Sequence[str]
    options: SearchOptions
    executor: Executor
    journal: Journal | None = None
    share: Share | None = None

    def found(self) -> Iterator[Row | Skipped]:
        """Yield a row per tensor and solver, or why there is none.

        One after another, a row comes as soon as its solver has ended; else a tensor's rows come
        together.
        """
        if self.journal is None and isinstance(self.executor, Serial):
            yield from compared(self.source, self.selection, self.solvers, self.options)
            return
        work = TensorComparison(self.source, self.solvers, self.options)
        tasks = share_of(self._tasks(), self.share)
        if self.journal is not None:
            self._check_same_weights(self.journal)
        parts = each_part(tasks, work, self.executor, self.journal, hold=interrupts_wait)
        for _, part in parts:
            yield from part.record["rows"]
            yield from skipped_of(part)
        if self.journal is not None and self.share is not None:
            names = tuple(task.name for task in tasks)
            self.journal.end_share(Ended(self.share, self.source.names(), names, ()))

    def searches(self) -> int:
        """Return how many searches this run has to show."""
        tasks = share_of(self._tasks(), self.share)
        return len(tasks) * len(self.solvers)

    def _tasks(self) -> list[Task]:
        """Return a task for each tensor."""
        return tensor_tasks(self.selection.chosen, self.options, self.solvers)

    def _check_same_weights(self, journal: Journal) -> None:
        """Refuse to mix weights: those of finished tensors must not have changed."""
        for name, part in journal.finished(self._tasks()).items():
            weight = TensorRows(self.source, self.source.info(name))
            if part.record["sha256"] != weight.fingerprint():
                raise FileError(
                    f"{journal.folder}: {name!r} was searched with other values; choose another "
                    f"--job, or remove {journal.folder} to start anew."
                )
