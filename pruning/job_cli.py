"""The searches of `permute` and `prune` as a job: by workers, in shares, kept as they finish."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from permsearch.cli.engine import engine_options, executor_of, job_option, share_option
from permsearch.cli.group import Interrupted
from permsearch.cli.interrupt import interrupts_wait
from permsearch.cli.progress import progress_bar
from permsearch.io.shares import Ended, Share
from permsearch.report.text import clean
from pruning.finished import keep_report, kept_report

if TYPE_CHECKING:
    from permsearch.jobs import Executor, Journal, Part, Task, Work

_Function = TypeVar("_Function", bound=Callable[..., Any])

JOB_SUFFIX = ".job"


def job_options(function: _Function) -> _Function:
    """Add --workers, --memory, --engine, --address, --job and --shard to a command."""
    decorated: _Function = engine_options(job_option(share_option(function)))
    return decorated


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of other kinds, and those that `job_options` added."""
    mine = {"workers", "memory", "engine", "address", "job", "share"}
    return (
        {key: value for key, value in options.items() if key not in mine},
        {key: value for key, value in options.items() if key in mine},
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a job say."""

    executor: Executor
    folder: Path
    kept: bool  # whether the folder stays when the job is done
    share: Share | None

    @classmethod
    def of(
        cls,
        out: Path,
        *,
        workers: int | None,
        memory: int | None,
        engine: str,
        address: str | None,
        job: Path | None,
        share: Share | None,
    ) -> Asked:
        """Return it; the job folder lies beside the output, if it has no place of its own."""
        folder = out.with_name(out.name + JOB_SUFFIX) if job is None else job
        return cls(executor_of(workers, memory, engine, address), folder, job is not None, share)

    def check_out(self, model: Path, out: Path) -> None:
        """Refuse an output that is there already, unless this job has written it.

        Raises
        ------
        FileError
            It is the model, lies in it, or is something else that is not to be replaced.
        """
        from pruning.model_folder import check_target

        if self.share is not None or kept_report(self.folder, out) is None:
            check_target(model, out)


@dataclass(slots=True)
class GroupJob:
    """A job folder that is open: it takes tasks to their parts; a context manager.

    Parameters
    ----------
    kind
        The command.
    model, out
        Where weights come from, and where the new folder goes.
    settings
        What decides the results.
    asked
        Where and by whom.
    """

    kind: str
    model: Path
    out: Path
    settings: Mapping[str, Any]
    asked: Asked
    _journal: Journal | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        from permsearch.jobs import Journal

        share = self.asked.share
        self._journal = Journal(
            self.asked.folder, self.kind, self.settings, source=str(self.model), share=share
        )
        if share is None:  # nobody else is at work: what was half written is of a run that died
            for left in self.out.parent.glob(f".{self.out.name}.*.tmp"):
                shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.__exit__()

    def through(self, tasks: Sequence[Task], work: Work) -> Mapping[str, Part]:
        """Return the part of every task; those that are kept are not done again.

        Raises
        ------
        Interrupted
            By Ctrl-C; what is finished is kept.
        """
        from permsearch.jobs import work_through

        assert self._journal is not None
        done = set(self._journal.finished(tasks))
        if done:
            told = f"{len(done)} of {len(tasks)} searches are finished in {self.asked.folder}"
            click.echo(told, err=True)
        total = sum(task.cost for task in tasks if task.name not in done)
        with progress_bar(total) as advance:

            def finished(task: Task) -> None:
                if task.name not in done:
                    done.add(task.name)
                    advance(task.name, done=task.cost)
                    if not sys.stderr.isatty():  # where no bar shows that something happens
                        click.echo(f"{len(done)} of {len(tasks)}: {clean(task.name)}", err=True)

            try:
                return work_through(
                    tasks,
                    work,
                    self.asked.executor,
                    self._journal,
                    started=lambda task: advance(task.name),
                    finished=finished,
                    hold=interrupts_wait,
                )
            except KeyboardInterrupt as error:
                raise Interrupted(
                    f"{len(done)} of {len(tasks)} searches are finished and kept in "
                    f"{self.asked.folder}; the same command goes on from there."
                ) from error

    def do_share(self, tasks: Sequence[Task], work: Work) -> None:
        """Do the share that was asked for, and say that it has ended."""
        from permsearch.jobs import share_of

        share = self.asked.share
        assert share is not None
        assert self._journal is not None
        mine = share_of(tasks, share)
        self.through(mine, work)
        names = tuple(task.name for task in tasks)
        self._journal.end_share(Ended(share, names, tuple(task.name for task in mine), ()))
        click.echo(
            f"share {share} is finished: {len(mine)} searches in {self.asked.folder}; when all "
            "are, the command without --shard writes the folder",
            err=True,
        )

    def keep_report(self, written: Path, report: Mapping[str, Any]) -> None:
        """Keep what is to be told of the output, which is whole but does not stand in its place."""
        keep_report(self.asked.folder, self.out, written, report)

    def finished_before(self, tasks: Sequence[Task]) -> dict[str, Any] | None:
        """Return the report of an output that a run wrote which was stopped before it told it.

        Raises
        ------
        FileError
            The weights have changed since.
        """
        assert self._journal is not None
        report = kept_report(self.asked.folder, self.out)
        if report is not None:
            self._journal.finished(tasks)
            click.echo(f"{self.out} was finished by an earlier run; its reports follow", err=True)
        return report

    def end(self) -> None:
        """Drop the journal, now that all is written and told, unless it has its own place."""
        if self._journal is not None and not self.asked.kept:
            self._journal.remove()
