"""`permsearch compare`: several solvers on the same tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

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
from permsearch.compare import Comparison, about, by_steps, compared, default_solvers
from permsearch.io.opening import open_tensors
from permsearch.io.select import Selection, Skipped, Unusable, select
from permsearch.io.source import TensorSource
from permsearch.patterns import Axis, Pattern
from permsearch.rows import Row
from permsearch.search_all import SearchOptions

_EXAMPLES = """\b
Examples:
  permsearch compare model.safetensors -p 2:4 --html report.html
  permsearch compare model/ -p 2:4 --solvers none,swap,window,auto --json rows.json
  permsearch compare weight.npy -p 2:8 --seconds 5 --csv -
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
) -> None:
    """Compare what several solvers retain on the tensors in PATH.

    The limit counts for each tensor and solver anew. Compiling is done before the clock starts.
    A step is another amount of work for every solver, so --seconds is what compares them.
    """
    check_outputs_differ({"--json": json_file, "--csv": csv_file, "--html": html})
    options = SearchOptions(pattern, "none", criterion(steps, seconds), seed, pad, tight, permute)
    check_report_can_be_made(html)
    solvers = default_solvers(pattern) if solvers is None else solvers
    source = open_tensors(path)
    selection = select(source, pattern, globs or None, exclude=excluded, pad=pad)
    tell_skipped(selection)
    tell_note(pattern)
    quiet = "-" in (json_file, csv_file, html)
    rows, skipped, complete = _run(source, selection, solvers, options, quiet=quiet)
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
        searches = len(selection.chosen) * len(solvers)
        raise Interrupted(f"{len(rows)} of {searches} searches are finished and shown.")
    end_with(failed)
    if not rows:
        raise click.ClickException("no solver could take any tensor; see the reasons above.")


def _unfinished(
    rows: Sequence[Row], skipped: Sequence[Skipped], solvers: Sequence[str]
) -> str | None:
    """Return the last tensor if some solver has not got to it."""
    if not rows:
        return None
    last = rows[-1]["tensor"]
    done = [row["tensor"] for row in rows] + [skip.name for skip in skipped]
    return last if done.count(last) < len(solvers) else None


def _run(
    source: TensorSource,
    selection: Selection,
    solvers: Sequence[str],
    options: SearchOptions,
    *,
    quiet: bool,
) -> tuple[list[Row], list[Skipped], bool]:
    """Return the rows, what a solver could not take, and whether the run came to its end."""
    rows: list[Row] = []
    skipped: list[Skipped] = []
    shapes = {info.name: info.shape for info in selection.chosen}
    table = Table(COMPARED, name_width(list(shapes)), quiet=quiet)
    total = len(shapes) * len(solvers)
    complete = True
    try:
        with progress_bar(total, what="compiling", lines=True) as advance:
            for found in compared(source, selection, solvers, options):
                if isinstance(found, Skipped):
                    skipped.append(found)
                    advance(found.name, done=len(solvers) if isinstance(found, Unusable) else 1)
                else:
                    rows.append(found)
                    table.add({**found, "shape": shapes[found["tensor"]]})
                    advance(f"{found['tensor']}, {found['solver']}", done=1)
    except KeyboardInterrupt:
        complete = False
    table.show()
    for skip in skipped:
        if not isinstance(skip, Unusable):
            tell(skip)
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
