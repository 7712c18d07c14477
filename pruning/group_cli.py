"""Options that say where searches of groups work, shared by `permute` and `prune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from permsearch.cli.options import write_output
from permsearch.io.jsontext import json_text
from permsearch.streaming.stream import MEMORY

if TYPE_CHECKING:
    from permsearch.stop import StoppingCriterion
    from pruning.checkpoint_job import Job
    from pruning.group_tasks import GroupOptions

_Function = TypeVar("_Function", bound=Callable[..., Any])
_GIB = 1 << 30

_OPTIONS = (
    click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="NAME",
        help="Where 8-bit distances are computed: cpu, or what an installed package offers (cuda).",
    ),
    click.option(
        "--group-memory",
        type=click.FloatRange(min=0.0),
        default=MEMORY / _GIB,
        show_default=True,
        metavar="GIB",
        help="What one search may hold; larger N:M groups are searched row by row.",
    ),
    click.option(
        "--scratch",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Where the files of those lie meanwhile; the system's temporary folder without it.",
    ),
)


outputs_option = click.option(
    "--free-outputs",
    is_flag=True,
    help="Let the last axis of the outputs move as well (for embeddings that are only compared).",
)


def group_options(function: _Function) -> _Function:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def searching(
    solver: str,
    stop: StoppingCriterion | None,
    seed: int,
    *,
    device: str,
    group_memory: float,
    scratch: Path | None,
) -> GroupOptions:
    """Return how groups are searched, as the command line says; unknown devices are told now."""
    from permsearch.streaming.device import open_device
    from pruning.group_tasks import GroupOptions

    open_device(device)
    return GroupOptions(solver, stop, seed, device, int(group_memory * _GIB), scratch)


def show_dry_run(job: Job, options: GroupOptions, text: str, json_file: str | None) -> None:
    """Tell what a job comes to and what it will take, from speeds measured now."""
    from permsearch.planning import measure
    from pruning.dry_run import numbers, told

    speed = measure()
    plans = job.plans(options, speed)
    nbytes = job.tensors.nbytes
    if json_file != "-":
        click.echo(f"{text}\n\n{told(plans, speed, nbytes)}")
    write_output(json_file, json_text({"dry_run": True, **numbers(plans, speed, nbytes)}))


def write_reports(
    content: Mapping[str, Any], json_file: str | None, html: str | None, *, title: str
) -> None:
    """Write the report as data and as a page, each where it was asked for."""
    write_output(json_file, json_text(content))
    if html is not None:
        from permsearch.report import page_of

        write_output(html, page_of(content, title=title))
