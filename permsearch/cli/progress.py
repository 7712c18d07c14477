"""A bar on the standard error where that is a terminal; nothing, or plain lines, in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from permsearch.report.text import clean


class Advance(Protocol):
    """What a loop tells the bar."""

    def __call__(self, name: str, *, done: float = 0.0) -> None:
        """Name what is worked on now, and say how much has been done since."""


def _silent(name: str, *, done: float = 0.0) -> None:
    del name, done


def _lines(total: float) -> Advance:
    """Return what tells in a line whatever is finished."""
    finished = 0.0

    def advance(name: str, *, done: float = 0.0) -> None:
        nonlocal finished
        finished += done
        if done:
            click.echo(f"{finished:g} of {total:g}: {clean(name)}", err=True)

    return advance


@contextmanager
def progress_bar(
    total: float, *, what: str = "searching", lines: bool = False
) -> Iterator[Advance]:
    """Yield a function that moves the bar; it ends with the block, whatever ends that.

    Where the standard error is no terminal, `lines` asks for a line for each thing done.
    """
    if not sys.stderr.isatty():
        yield _lines(total) if lines else _silent
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=True,
    ) as bar:
        task = bar.add_task(what, total=total)

        def advance(name: str, *, done: float = 0.0) -> None:
            bar.update(task, description=escape(name[-48:]), advance=done)

        yield advance
