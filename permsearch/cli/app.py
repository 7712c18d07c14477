"""The `permsearch` command and its own sub-commands."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from permsearch.cli.bound import bound_command
from permsearch.cli.compare import compare_command
from permsearch.cli.group import Group, give_up_output, one_line
from permsearch.cli.merge import merge_command
from permsearch.cli.options import debug_option
from permsearch.cli.report import report_command
from permsearch.cli.search import search_command


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    from permsearch import __version__

    del param
    if value and not ctx.resilient_parsing:
        click.echo(f"permsearch {__version__}")
        ctx.exit()


_EXAMPLES = """\b
Examples:
  permsearch search model.safetensors -p 2:4 --out masks
  permsearch compare model.safetensors -p 2:4 --html report.html
  permsearch bound model.safetensors -p 2:4
"""


@click.group(
    "permsearch",
    cls=Group,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@debug_option
def cli() -> None:
    """Find column orders that let structured sparsity keep more of a weight.

    PATH is a .safetensors, .npy or .npz file, or a Hugging Face folder. Results go to the standard
    output, everything else to the standard error. Exit status: 0 done, 1 failed (also where
    some tensors hold NaN or infinities; the others are written), 2 wrong usage, 130 interrupted.
    """


cli.add_command(search_command)
cli.add_command(compare_command)
cli.add_command(report_command)
cli.add_command(bound_command)
cli.add_command(merge_command)


def main() -> NoReturn:
    """Run the command line and leave with its exit status."""
    if sys.stderr is None:  # closed by the caller, who does not want to hear anything
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        _fail("the standard output is closed; send it to a file or to /dev/null.")
    try:
        cli(prog_name="permsearch")
    except OSError as error:  # --help and --version print before any command is run
        give_up_output()
        _fail(one_line(error))
    raise SystemExit(0)


def _fail(text: str) -> NoReturn:
    click.echo(f"Error: {text}", err=True)
    raise SystemExit(1)
