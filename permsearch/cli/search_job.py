"""A run of `permsearch search`: what is left to search, and where what is found goes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import click

from permsearch.cli.interrupt import interrupts_wait
from permsearch.cli.progress import progress_bar
from permsearch.cli.table import Table
from permsearch.errors import ScoresError, UnsupportedProblem
from permsearch.io.bundle_writer import BundleWriter
from permsearch.io.manifest import ANEW, MANIFEST, Damaged, Record
from permsearch.io.select import Selection, Skipped, Unusable
from permsearch.io.shares import Ended, Share
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.io.times import KEYS as TIMES
from permsearch.jobs import Executor, Outcome, Task, share_of
from permsearch.jobs.tensors import TensorSearch, tensor_tasks, weight_fingerprint
from permsearch.jobs.through import first_error
from permsearch.provenance import provenance
from permsearch.rows import COLUMNS, Row
from permsearch.search_all import SearchOptions


@dataclass(slots=True)
class Job:
    """A run of the command: what to search, where results go, and what is done."""

    source: TensorSource
    selection: Selection
    options: SearchOptions
    writer: BundleWriter | None
    table: Table
    executor: Executor
    share: Share | None = None
    rows: dict[str, Row] = field(default_factory=dict)
    failed: list[Unusable] = field(default_factory=list)

    @property
    def tasks(self) -> list[Task]:
        """What this run is to search, its share of everything."""
        return share_of(tensor_tasks(self.selection.chosen, self.options), self.share)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Everything that is left out, in the order of the source."""
        place = self._places()
        return (*self.selection.skipped, *sorted(self.failed, key=lambda skip: place[skip.name]))

    def take_over(self) -> int:
        """Count the tensors that an earlier run finished, after checking their weights."""
        if self.writer is None:
            return 0
        for task in self.tasks:
            record = self.writer.finished.get(task.name)
            if record is not None:
                now = weight_fingerprint(self.source, task.payload, self.options)
                self.writer.check_same_weight(task.name, now)
                self._take_over(self.writer, record, task.payload)
        return len(self.rows)

    def _take_over(self, writer: BundleWriter, record: Record, info: TensorInfo) -> None:
        """Show a record of the manifest as a row."""
        try:
            self._keep({**dict.fromkeys(TIMES), **record}, info)
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(
                f"{writer.folder / MANIFEST}: damaged, the record of {info.name!r} does not make a "
                f"row ({type(error).__name__}: {error}); {ANEW}."
            ) from error

    def run(self) -> None:
        """Search what is left, storing every tensor as soon as it is finished.

        Raises
        ------
        PermsearchError
            Something cannot be read, when all that can be is finished; or not be written, at once.
        """
        left = [task for task in self.tasks if task.name not in self.rows]
        work = TensorSearch(self.source, self.options)
        lost: list[Outcome] = []
        with progress_bar(sum(task.cost for task in left)) as advance:
            running = self.executor.run(work, left, lambda task: advance(task.name))
            with closing(running) as outcomes:
                for outcome in outcomes:
                    self._take(outcome, lost)
                    advance(outcome.task.name, done=outcome.task.cost)
        if lost:
            raise first_error(lost)
        self._finish()

    def _take(self, outcome: Outcome, lost: list[Outcome]) -> None:
        """Store what came of a tensor, or remember why nothing did."""
        name, error = outcome.task.name, outcome.error
        if isinstance(error, ScoresError | UnsupportedProblem):
            if click.get_current_context().meta.get("permsearch.debug"):
                raise error
            self.failed.append(Unusable.of(name, error))
        elif error is not None:
            lost.append(outcome)
        else:
            part = outcome.value()
            with interrupts_wait():
                if self.writer is not None:
                    self.writer.add_part(part)
                self._keep({key: part.record[key] for key in COLUMNS}, outcome.task.payload)

    def _finish(self) -> None:
        """Merge a whole run, or say that this share of it has ended."""
        if self.writer is None:
            return
        names = self.source.names()
        if self.share is not None:
            self.writer.end_share(Ended(self.share, names, tuple(self.rows), self.skipped))
        elif self.rows:
            self.writer.finish(names, self.skipped)

    def _places(self) -> dict[str, int]:
        return {info.name: place for place, info in enumerate(self.selection.chosen)}

    def _keep(self, row: Row, info: TensorInfo) -> None:
        self.rows[row["tensor"]] = row
        self.table.add({**row, "shape": info.shape}, self._places()[info.name])

    def content(self, *, complete: bool) -> dict[str, Any]:
        """Return what --json writes."""
        return {
            "about": {
                "pattern": str(self.options.pattern),
                "source": self.source.where,
                **provenance(),
            },
            "complete": complete,
            "out": None if self.writer is None else str(self.writer.folder),
            "rows": [self.rows[name] for name in self._places() if name in self.rows],
            "skipped": [{"tensor": skip.name, "reason": skip.reason} for skip in self.skipped],
        }
