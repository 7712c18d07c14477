"""Telling what is left out, on the standard error."""

from __future__ import annotations

import click

from permsearch.io.select import Selection
from permsearch.report.text import clean

SHOWN = 8


def tell_skipped(selection: Selection) -> None:
    """Name the tensors that were likely meant to be searched; count vectors and scalars."""
    surprising = selection.surprising()
    vectors = len(selection.skipped) - len(surprising)
    for skip in surprising[:SHOWN]:
        click.echo(f"skipped {clean(str(skip))}", err=True)
    if len(surprising) > SHOWN:
        more = len(surprising) - SHOWN
        click.echo(f"skipped {more} more; --dry-run or --json lists them with reasons", err=True)
    if vectors:
        some = "tensor" if vectors == 1 else "tensors"
        click.echo(f"skipped {vectors} {some} without rows and columns (biases, norms)", err=True)
