"""Options of commands whose work is independent pieces: how many at once, where, and which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from permsearch.cli.converter import Converter
from permsearch.cli.options import all_options
from permsearch.io.shares import Share, ShareError

if TYPE_CHECKING:
    from permsearch.jobs import Executor

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class BytesType(Converter[int]):
    """A number of bytes, such as 6G."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail with an example."""
        found = _BYTES.fullmatch(str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no number of bytes; give for example 6G or 500M.", param, ctx)
        return int(float(found[1]) * 2 ** _UNITS[found[2].upper()])


class ShareType(Converter[Share]):
    """A share of the work, such as 3/16."""

    name = "i/n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Share:
        """Return the share, or fail with how shares are counted."""
        if isinstance(value, Share):
            return value
        try:
            return Share.parse(value)
        except ShareError as error:
            self.fail(str(error), param, ctx)


_ENGINE = (
    click.option(
        "--workers",
        type=click.IntRange(min=0),
        metavar="N",
        help="Work on N pieces at the same time; 0: one for each core. 1 without it, or all cores "
        "of Ray. Results do not depend on N.",
    ),
    click.option(
        "--memory",
        type=BytesType(),
        metavar="BYTES",
        help="For all pieces that are worked on at the same time, such as 6G; what does not fit "
        "waits. Most of what is free without it.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["processes", "threads", "ray"]),
        default="processes",
        show_default=True,
        help="Where workers live; ray: on a cluster (extra `ray`).",
    ),
    click.option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster: auto, or ray://HOST:PORT. Without it Ray is started on this "
        "machine.",
    ),
)

share_option = click.option(
    "--shard",
    "share",
    type=ShareType(),
    metavar="i/n",
    help="Do only the i-th of n shares of the work (arrays of jobs; i counts from 1); when all are "
    "done, `permsearch merge` puts them together.",
)

job_option = click.option(
    "--job",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep what is finished there; the same command goes on after a stop.",
)


send_option = click.option(
    "--send",
    is_flag=True,
    help="Send weights through Ray's object store, where its machines cannot read PATH.",
)


def engine_options(function: Any) -> Any:
    """Add --workers, --memory, --engine and --address."""
    return all_options(_ENGINE, function)


def executor_of(
    workers: int | None,
    memory: int | None,
    engine: str,
    address: str | None,
    *,
    send: bool = False,
) -> Executor:
    """Return what the options ask for.

    Raises
    ------
    click.UsageError
        They contradict each other.
    """
    from permsearch.jobs import executor

    if address is not None and engine != "ray":
        raise click.UsageError("--address needs --engine ray.")
    if send and engine != "ray":
        raise click.UsageError("--send needs --engine ray.")
    if memory is not None and engine == "ray":
        raise click.UsageError("--memory is what Ray's machines say they have; leave it away.")
    default = 0 if engine == "ray" else 1
    return executor(
        default if workers is None else workers,
        engine=engine,
        memory=memory,
        address=address,
        send=send,
    )
