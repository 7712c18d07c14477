"""`permsearch bound`: a proven limit for every tensor, without a search."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from pathlib import Path

import click

from permsearch.bounds import bound, tightened
from permsearch.cli.group import Interrupted
from permsearch.cli.options import (
    SecondsType,
    criterion,
    debug_option,
    json_option,
    path_argument,
    problem_options,
    write_output,
)
from permsearch.cli.progress import progress_bar
from permsearch.cli.skipped import end_with, tell_note, tell_skipped
from permsearch.cli.table import BOUNDED, Table, name_width
from permsearch.errors import ScoresError
from permsearch.io.jsontext import json_text
from permsearch.io.opening import open_tensors
from permsearch.io.select import Unusable, select
from permsearch.io.source import TensorInfo, TensorSource
from permsearch.patterns import Axis, Pattern
from permsearch.provenance import provenance
from permsearch.result import TIGHT
from permsearch.rows import Row, result_row
from permsearch.search_all import SearchOptions
from permsearch.stop import StoppingCriterion

_EXAMPLES = """\b
Examples:
  permsearch bound model.safetensors -p 2:4
  permsearch bound weight.npy -p 2:4 --seconds 30 --json
"""


@click.command("bound", epilog=_EXAMPLES)
@path_argument
@problem_options
@click.option(
    "--seconds",
    type=SecondsType(),
    help="Stop each bound after S seconds; without it the tight kind is tried up to a minute long.",
)
@json_option
@debug_option
def bound_command(
    *,
    path: Path,
    pattern: Pattern,
    permute: tuple[Axis, ...] | None,
    globs: tuple[str, ...],
    excluded: tuple[str, ...],
    pad: bool,
    seed: int,
    seconds: float | None,
    json_file: str | None,
) -> None:
    """Tell what no order can exceed, for every tensor in PATH.

    The bound is a share of the total score, as is what the order in the file retains (start).
    Loose kinds are marked; the slack is how much of the bound is room for rounding.
    """
    source = open_tensors(path)
    selection = select(source, pattern, globs or None, exclude=excluded, pad=pad)
    tell_skipped(selection)
    tell_note(pattern)
    options = SearchOptions(pattern, "none", criterion(None, None), seed, pad, permute=permute)
    stop = criterion(None, seconds)
    quiet = json_file == "-"
    table = Table(BOUNDED, name_width([info.name for info in selection.chosen]), quiet=quiet)
    rows: list[Row] = []
    loose: dict[str, float] = {}
    failed: list[Unusable] = []
    interrupted = False
    try:
        with progress_bar(sum(i.size for i in selection.chosen), what="bounding") as advance:
            for info in selection.chosen:
                advance(info.name)
                try:
                    row, seconds_needed = _bounded(source, info, options, stop)
                except ScoresError as error:
                    failed.append(Unusable.of(info.name, error))
                else:
                    rows.append(row)
                    loose.update(seconds_needed)
                    table.add({**row, "shape": info.shape})
                advance(info.name, done=info.size)
    except KeyboardInterrupt:
        interrupted = True
    table.show()
    _tell_longest(loose)
    content = {
        "about": {"pattern": str(pattern), "source": source.where, **provenance()},
        "complete": not interrupted,
        "rows": rows,
        "skipped": [
            {"tensor": skip.name, "reason": skip.reason} for skip in (*selection.skipped, *failed)
        ],
    }
    write_output(json_file, json_text(content))
    if interrupted:
        raise Interrupted(f"{len(rows)} of {len(selection.chosen)} bounds are finished and shown.")
    end_with(failed)


def _bounded(
    source: TensorSource, info: TensorInfo, options: SearchOptions, stop: StoppingCriterion | None
) -> tuple[Row, dict[str, float]]:
    """Return a tensor's row, and the seconds that its tight kind takes where that is missing."""
    from time import perf_counter, process_time

    from permsearch.certificates.certify import tight_seconds

    wall, cpu = perf_counter(), process_time()
    result = options.search(source.read(info.name), info.name)
    limited = tightened(result, bound(result.problem, stop=stop))
    row = result_row(info.name, info.shape, limited, solver="none")
    needed = None if limited.bound_kind in TIGHT else tight_seconds(result.problem)
    times = {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}
    return {**row, **times}, {info.name: needed} if needed and isfinite(needed) else {}


def _tell_longest(loose: Mapping[str, float]) -> None:
    """Say what the longest of the tight kinds that are missing would take."""
    if loose:
        name = max(loose, key=lambda name: loose[name])
        click.echo(
            f"{len(loose)} loose, for want of time: for {name} the tight kind takes about "
            f"{loose[name]:.0f} s of CPU; give twice as much to --seconds.",
            err=True,
        )
