"""`permsearch search`: an order and a mask for every tensor of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from permsearch.cli.group import Interrupted
from permsearch.cli.interrupt import interrupts_wait
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
from permsearch.cli.progress import progress_bar
from permsearch.cli.skipped import end_with, tell_note, tell_skipped
from permsearch.cli.table import SEARCHED, Table, name_width
from permsearch.errors import ScoresError, UnsupportedProblem
from permsearch.io.bundle_writer import BundleWriter
from permsearch.io.fingerprint import fingerprint
from permsearch.io.jsontext import json_text
from permsearch.io.manifest import ANEW, MANIFEST, Damaged, Record
from permsearch.io.opening import open_tensors
from permsearch.io.select import Selection, Skipped, Unusable, select
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.patterns import Axis, Pattern
from permsearch.provenance import provenance
from permsearch.result import SearchResult
from permsearch.rows import Row, result_row
from permsearch.search_all import SearchOptions


@dataclass(slots=True)
class Job:
    """A run of the command: what to search, where results go, and what is done."""

    source: TensorSource
    selection: Selection
    options: SearchOptions
    writer: BundleWriter | None
    table: Table
    rows: dict[str, Row] = field(default_factory=dict)
    failed: list[Unusable] = field(default_factory=list)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Everything that is left out."""
        return (*self.selection.skipped, *self.failed)

    def take_over(self) -> int:
        """Count the tensors that an earlier run finished, after checking their weights."""
        if self.writer is None:
            return 0
        for info in self.selection.chosen:
            record = self.writer.finished.get(info.name)
            if record is not None:
                self.writer.check_same_weight(info.name, fingerprint(self.source.read(info.name)))
                self._take_over(self.writer, record, info)
        return len(self.rows)

    def _take_over(self, writer: BundleWriter, record: Record, info: TensorInfo) -> None:
        """Show a record of the manifest as a row."""
        try:
            self._keep(dict(record), info)
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(
                f"{writer.folder / MANIFEST}: damaged, the record of {info.name!r} does not make a "
                f"row ({type(error).__name__}: {error}); {ANEW}."
            ) from error

    def run(self) -> None:
        """Search what is left, storing every tensor as soon as it is finished."""
        left = [info for info in self.selection.chosen if info.name not in self.rows]
        with progress_bar(sum(info.size for info in left)) as advance:
            for info in left:
                advance(info.name)
                self._search(info)
                advance(info.name, done=info.size)
        if self.writer is not None and self.rows:
            self.writer.finish(self.source.names(), self.skipped)

    def _search(self, info: TensorInfo) -> None:
        weight = self.source.read(info.name)
        if not self.rows and self.options.stop is None:
            self.options.warm_up(weight)
        try:
            result = self.options.search(weight, info.name)
        except (ScoresError, UnsupportedProblem) as error:
            if click.get_current_context().meta.get("permsearch.debug"):
                raise
            self.failed.append(Unusable.of(info.name, error))
            return
        row = result_row(info.name, info.shape, result, solver=str(self.options.solver))
        record = {
            **row,
            "shape": info.shape,
            "dtype": info.dtype,
            "axis": 1,
            "sha256": fingerprint(weight),
        }
        with interrupts_wait():
            if self.writer is not None:
                self.writer.add(record, result.mask, **_orders(result))
            self._keep(row, info)

    def _keep(self, row: Row, info: TensorInfo) -> None:
        self.rows[row["tensor"]] = row
        self.table.add({**row, "shape": info.shape})

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
            "rows": list(self.rows.values()),
            "skipped": [{"tensor": skip.name, "reason": skip.reason} for skip in self.skipped],
        }


_EXAMPLES = """\b
Examples:
  permsearch search model.safetensors -p 2:4 --out masks
  permsearch search model/ -p 2:4 -t '*mlp*' --seconds 10 --out masks
  permsearch search weight.npy -p 1:4 --steps 2000 --json > result.json
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
            writer = BundleWriter(out, settings, source=source.where, overwrite=overwrite)
            stack.enter_context(writer)
        names = [info.name for info in selection.chosen]
        table = Table(SEARCHED, name_width(names), quiet=json_file == "-")
        job = Job(source, selection, options, writer, table)
        with _shown(job, json_file):
            before = job.take_over()
            if before:
                click.echo(f"{before} of {len(names)} tensors are finished in {out}", err=True)
            job.run()
    if out is not None and job.rows:
        click.echo(f"wrote {len(job.rows)} masks and orders to {out}", err=True)
    end_with(job.failed)


def _orders(result: SearchResult) -> dict[str, NDArray[Any] | None]:
    """Return the orders to store: those of the axes that were searched, and the tiles' own."""
    (term,) = result.problem.terms
    return {
        "rows": None if term.rows is None else result.rows,
        "cols": None if term.cols is None else result.cols,
        "tiles": result.tiles.get(0),
    }


@contextmanager
def _shown(job: Job, json_file: str | None) -> Iterator[None]:
    """Show and write what is finished, also when Ctrl-C ends the block; then say what is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        job.table.show()
        write_output(json_file, json_text(job.content(complete=False)))
        raise Interrupted(_kept(job)) from error
    job.table.show()
    write_output(json_file, json_text(job.content(complete=True)))


def _kept(job: Job) -> str:
    done = f"{len(job.rows)} of {len(job.selection.chosen)} tensors are finished"
    if job.writer is None:
        return f"{done}; with --out DIR their masks and orders would be kept."
    return f"{done} and kept in {job.writer.folder}; the same command goes on from there."
