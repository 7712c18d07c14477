"""`permsearch search`: an order and a mask for every tensor of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from permsearch.cli.engine import engine_options, executor_of, send_option, share_option
from permsearch.cli.group import Interrupted
from permsearch.cli.options import (
    SolverType,
    criterion,
    debug_option,
    json_option,
    limit_options,
    path_argument,
    problem_options,
    write_output,
)
from permsearch.cli.plan import show_plan
from permsearch.cli.search_job import Job
from permsearch.cli.skipped import end_with, tell_note, tell_skipped
from permsearch.cli.table import SEARCHED, Table, name_width
from permsearch.errors import PermsearchError
from permsearch.io.bundle_writer import BundleWriter
from permsearch.io.jsontext import json_text
from permsearch.io.opening import open_tensors
from permsearch.io.select import select
from permsearch.io.shares import Share
from permsearch.patterns import Axis, Pattern
from permsearch.search_all import SearchOptions

_EXAMPLES = """\b
Examples:
  permsearch search model.safetensors -p 2:4 --out masks
  permsearch search model/ -p 2:4 -t '*mlp*' --seconds 10 --out masks
  permsearch search weight.npy -p 1:4 --steps 2000 --json > result.json
\n\b
Columns, shares of the sum of |w|:
  retained, start  kept in the order found, and as stored; gain: their difference
  efficacy         of what a mask without groups would keep beyond the start
  bound            what no order exceeds; loose: probably not to be reached
  of gain          of the way from start to bound; empty where the bound is loose
"""


@click.command("search", epilog=_EXAMPLES)
@path_argument
@problem_options
@click.option(
    "--solver", type=SolverType(), default="auto", show_default=True, help="How to search."
)
@limit_options
@click.option("--bound", "tight", is_flag=True, help="Compute the tighter bound for each tensor.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write masks and orders there, tensor by tensor; the same command goes on after a stop.",
)
@click.option("--overwrite", is_flag=True, help="Drop the bundle that is in --out first.")
@engine_options
@send_option
@share_option
@click.option("--dry-run", is_flag=True, help="Only list what would be searched, and why not.")
@json_option
@debug_option
def search_command(
    *,
    path: Path,
    pattern: Pattern,
    permute: tuple[Axis, ...] | None,
    globs: tuple[str, ...],
    excluded: tuple[str, ...],
    pad: bool,
    seed: int,
    solver: str,
    steps: int | None,
    seconds: float | None,
    tight: bool,
    out: Path | None,
    overwrite: bool,
    workers: int | None,
    memory: int | None,
    engine: str,
    address: str | None,
    send: bool,
    share: Share | None,
    dry_run: bool,
    json_file: str | None,
) -> None:
    """Search orders of the axes that matter to the pattern for every tensor in PATH.

    Each tensor is searched on its own; for N:M, along its input channels. Without --steps or
    --seconds each solver has its own limit, a few seconds for a 1024 x 1024 matrix.
    """
    stop = criterion(steps, seconds)
    if overwrite and out is None:
        raise click.UsageError("--overwrite needs --out.")
    if share is not None and (out is None or overwrite):
        raise click.UsageError("--shard needs --out, and goes without --overwrite.")
    executor = executor_of(workers, memory, engine, address, send=send)
    source = open_tensors(path)
    selection = select(source, pattern, globs or None, exclude=excluded, pad=pad)
    settings = {
        "pattern": str(pattern),
        "permute": None if permute is None else ",".join(permute),
        "solver": solver,
        "seed": seed,
        "steps": steps,
        "seconds": seconds,
        "pad": pad,
        "bound": tight,
    }
    if dry_run:
        show_plan(selection, pattern, settings, source, None if overwrite else out, json_file)
        return
    tell_skipped(selection)
    tell_note(pattern)
    options = SearchOptions(pattern, solver, stop, seed, pad, tight, permute)
    with ExitStack() as stack:
        writer = None
        if out is not None:
            writer = BundleWriter(
                out, settings, source=source.where, overwrite=overwrite, share=share
            )
            stack.enter_context(writer)
        table = Table(
            SEARCHED,
            name_width([info.name for info in selection.chosen]),
            quiet=json_file == "-",
        )
        job = Job(source, selection, options, writer, table, executor, share)
        with _shown(job, json_file):
            before = job.take_over()
            if before:
                click.echo(f"{before} of {len(job.tasks)} tensors are finished in {out}", err=True)
            job.run()
    _tell_end(job)
    end_with(job.failed)


def _tell_end(job: Job) -> None:
    """Say where the results lie, and what remains to be done."""
    if job.writer is None:
        return
    folder = job.writer.folder
    if job.share is not None:
        click.echo(
            f"share {job.share} is finished: {len(job.rows)} tensors in {folder}; when all are, "
            f"permsearch merge {folder}",
            err=True,
        )
    elif job.rows:
        click.echo(f"wrote {len(job.rows)} masks and orders to {folder}", err=True)


@contextmanager
def _shown(job: Job, json_file: str | None) -> Iterator[None]:
    """Show and write what is finished, also when Ctrl-C ends the block; then say what is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        job.table.show()
        write_output(json_file, json_text(job.content(complete=False)))
        raise Interrupted(_kept(job)) from error
    except PermsearchError as error:
        if job.rows and job.writer is not None:
            job.table.show()
            error.args = (f"{str(error).rstrip('.')}. {_kept(job)}",)
        raise
    job.table.show()
    write_output(json_file, json_text(job.content(complete=True)))


def _kept(job: Job) -> str:
    done = f"{len(job.rows)} of {len(job.tasks)} tensors are finished"
    if job.writer is None:
        return f"{done}; with --out DIR their masks and orders would be kept."
    return f"{done} and kept in {job.writer.folder}; the same command goes on from there."
