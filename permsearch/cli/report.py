"""`permsearch report`: a bundle, or what a command wrote as JSON, as one page of HTML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from permsearch.cli.options import (
    OutputType,
    check_report_can_be_made,
    debug_option,
    write_output,
)
from permsearch.errors import FileError
from permsearch.io.manifest import read_manifest

_EXAMPLES = """\b
Examples:
  permsearch report masks/ --html report.html
  permsearch report result.json --html report.html
"""


@click.command("report", epilog=_EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--html", type=OutputType(), required=True, metavar="FILE", help="The page to write.")
@click.option("--title", metavar="TEXT", help="The page's heading.")
@debug_option
def report_command(*, path: Path, html: str, title: str | None) -> None:
    """Write a page about PATH: a bundle's folder, or a file that --json of a command wrote.

    The page fetches nothing: tables that sort, bars for what each weight keeps between its stored
    order and its bound, output errors where they are known, and what was left out and why.
    """
    from permsearch.report import page_of

    check_report_can_be_made(html)
    write_output(html, page_of(_content(path), title=title))
    if html != "-":
        click.echo(f"wrote {html}")


def _content(path: Path) -> Mapping[str, Any]:
    """Return a bundle's manifest, or the content of a JSON file.

    Raises
    ------
    FileError
        It is neither.
    """
    if path.is_dir():
        return read_manifest(path)
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read as JSON ({error}).") from error
    if not isinstance(found, dict):
        raise FileError(f"{path}: no report of a command; it holds a {type(found).__name__}.")
    return found
