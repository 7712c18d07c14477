"""`permsearch compare`: several solvers on the same tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from permsearch.cli.compare_job import Comparing
from permsearch.cli.engine import engine_options, executor_of, job_option, send_option, share_option
from permsearch.cli.group import Interrupted
from permsearch.cli.options import (
    OutputType,
    SolversType,
    check_outputs_differ,
    check_report_can_be_made,
    criterion,
    debug_option,
    json_option,
    limit_options,
    path_argument,
    problem_options,
    write_output,
)
from permsearch.cli.progress import progress_bar
from permsearch.cli.skipped import end_with, tell, tell_note, tell_skipped
from permsearch.cli.table import COMPARED, OVER_WINDOW, SUMMARY, Table, name_width
from permsearch.compare import Comparison, about, by_steps, default_solvers
from permsearch.io.opening import open_tensors
from permsearch.io.select import Skipped, Unusable, select
from permsearch.io.shares import Share
from permsearch.jobs import Journal
from permsearch.patterns import Axis, Pattern
from permsearch.rows import Row
from permsearch.search_all import SearchOptions

_EXAMPLES = """\b
Examples:
  permsearch compare model.safetensors -p 2:4 --html report.html
  permsearch compare model/ -p 2:4 --solvers none,swap,window,auto --json rows.json
  permsearch compare weight.npy -p 2:8 --seconds 5 --csv -
\n\b
Columns, besides those of permsearch search --help:
  gap        from retained to bound, of the bound
  vs window  the gain as a multiple of that of the published search, window
"""


@click.command("compare", epilog=_EXAMPLES)
@path_argument
@problem_options
@click.option(
    "--solvers",
    type=SolversType(),
    help="Short names, separated by commas. Without it: none, auto, and the published search for "
    "the pattern where there is one (window, kmeans, tetris, gyro).",
)
@limit_options
@click.option("--bound", "tight", is_flag=True, help="Compute the tighter bound for each tensor.")
@json_option
@click.option(
    "--csv", "csv_file", type=OutputType(), help="Write the rows as CSV; - is the standard output."
)
@click.option("--html", type=OutputType(), help="Write a report, one self-contained file.")
@engine_options
@send_option
@job_option
@share_option
@debug_option
def compare_command(
    *,
    path: Path,
    pattern: Pattern,
    permute: tuple[Axis, ...] | None,
    globs: tuple[str, ...],
    excluded: tuple[str, ...],
    pad: bool,
    seed: int,
    solvers: tuple[str, ...] | None,
    steps: int | None,
    seconds: float | None,
    tight: bool,
    json_file: str | None,
    csv_file: str | None,
    html: str | None,
    workers: int | None,
    memory: int | None,
    engine: str,
    address: str | None,
    send: bool,
    job: Path | None,
    share: Share | None,
) -> None:
    """Compare what several solvers retain on the tensors in PATH.

    The limit counts for each tensor and solver anew. Compiling is done before the clock starts.
    A step is another amount of work for every solver, so --seconds is what compares them.
    """
    check_outputs_differ({"--json": json_file, "--csv": csv_file, "--html": html})
    executor = executor_of(workers, memory, engine, address, send=send)
    if share is not None and job is None:
        raise click.UsageError("--shard needs --job.")
    options = SearchOptions(pattern, "none", criterion(steps, seconds), seed, pad, tight, permute)
    check_report_can_be_made(html)
    solvers = default_solvers(pattern) if solvers is None else solvers
    source = open_tensors(path)
    selection = select(source, pattern, globs or None, exclude=excluded, pad=pad)
    tell_skipped(selection)
    tell_note(pattern)
    quiet = "-" in (json_file, csv_file, html)
    with ExitStack() as stack:
        journal = None
        if job is not None:
            asked = _settings(options, solvers, steps, seconds)
            journal = Journal(job, "compare", asked, source=source.where, share=share)
            stack.enter_context(journal)
        comparing = Comparing(source, selection, solvers, options, executor, journal, share)
        rows, skipped, complete = _run(comparing, quiet=quiet)
    words = {**about(source, solvers, options), "command": _command(), "complete": complete}
    comparison = Comparison(
        tuple(rows),
        (*selection.skipped, *skipped),
        words,
        by_steps(options.stop),
        None if complete else _unfinished(rows, skipped, solvers),
    )
    failed = [skip for skip in skipped if isinstance(skip, Unusable)]
    if rows:
        write_output(json_file, comparison.to_json())
        write_output(csv_file, comparison.to_csv())
        write_output(html, comparison.to_html() if html else "")
        _show_summary(comparison, quiet=quiet)
    if not complete:
        raise Interrupted(_kept(len(rows), comparing))
    end_with(failed)
    if not rows and comparing.searches():
        raise click.ClickException("no solver could take any tensor; see the reasons above.")


def _settings(
    options: SearchOptions, solvers: Sequence[str], steps: int | None, seconds: float | None
) -> dict[str, Any]:
    """Return what decides the rows, as a job folder keeps it."""
    return {
        "pattern": str(options.pattern),
        "permute": None if options.permute is None else ",".join(options.permute),
        "solvers": ",".join(solvers),
        "seed": options.seed,
        "steps": steps,
        "seconds": seconds,
        "pad": options.pad,
        "bound": options.bound,
    }


def _kept(rows: int, job: Comparing) -> str:
    """Say what an interrupted run leaves."""
    told = f"{rows} of {job.searches()} searches are finished and shown"
    if job.journal is None:
        return f"{told}."
    return f"{told}, and kept in {job.journal.folder}; the same command goes on from there."


def _unfinished(
    rows: Sequence[Row], skipped: Sequence[Skipped], solvers: Sequence[str]
) -> str | None:
    """Return the last tensor if some solver has not got to it."""
    if not rows:
        return None
    last = rows[-1]["tensor"]
    done = [row["tensor"] for row in rows] + [skip.name for skip in skipped]
    return last if done.count(last) < len(solvers) else None


def _run(job: Comparing, *, quiet: bool) -> tuple[list[Row], list[Skipped], bool]:
    """Return the rows, what a solver could not take, and whether the run came to its end."""
    rows: list[Row] = []
    skipped: list[Skipped] = []
    chosen, each = job.selection.chosen, len(job.solvers)
    shapes = {info.name: info.shape for info in chosen}
    places = {info.name: place for place, info in enumerate(chosen)}
    table = Table(COMPARED, name_width(list(shapes)), quiet=quiet)
    complete = True
    try:
        with progress_bar(job.searches(), what="compiling", lines=True) as advance:
            for found in job.found():
                if isinstance(found, Skipped):
                    skipped.append(found)
                    advance(found.name, done=each if isinstance(found, Unusable) else 1)
                else:
                    rows.append(found)
                    name = found["tensor"]
                    table.add({**found, "shape": shapes[name]}, places[name])
                    advance(f"{name}, {found['solver']}", done=1)
    except KeyboardInterrupt:
        complete = False
    table.show()
    for skip in skipped:
        if not isinstance(skip, Unusable):
            tell(skip)
    rows.sort(key=lambda row: places[row["tensor"]])
    skipped.sort(key=lambda skip: places[skip.name])
    return rows, skipped, complete


def _show_summary(comparison: Comparison, *, quiet: bool) -> None:
    if not quiet:
        click.echo()
    rows = comparison.summary()
    against = any(row["gain_over_window"] is not None for row in rows)
    summary = Table([c for c in SUMMARY if c is not OVER_WINDOW or against], quiet=quiet)
    for row in rows:
        summary.add(row)
    left_out = f", without {comparison.unfinished}" if comparison.unfinished else ""
    summary.show(f"All tensors, weighted by their scores{left_out}")


def _command() -> str:
    import shlex
    import sys

    return shlex.join(["permsearch", *sys.argv[1:]])
