"""Telling what is left out and what failed, on the standard error."""

from __future__ import annotations

from collections.abc import Sequence

import click

from permsearch.io.select import Selection, Skipped, Unusable
from permsearch.patterns import Pattern, kernel_note
from permsearch.report.text import clean

SHOWN = 8
_FAILED = 3


def in_shell_words(text: str) -> str:
    """Return a message of the library with its parameters named as options."""
    return text.replace("pass pad=True", "give --pad").replace("pad=True", "--pad")


def tell(skip: Skipped) -> None:
    """Name a tensor that is left out, with the reason."""
    click.echo(f"skipped {clean(in_shell_words(str(skip)))}", err=True)


def end_with(failed: Sequence[Unusable]) -> None:
    """Fail, in one line, if the values of some tensors did not allow to search them."""
    if not failed:
        return
    named = "; ".join(clean(str(skip)) for skip in failed[:_FAILED])
    more = f"; and {len(failed) - _FAILED} more" if len(failed) > _FAILED else ""
    count = "1 tensor" if len(failed) == 1 else f"{len(failed)} tensors"
    raise click.ClickException(f"{count} could not be searched: {named}{more}.")


def tell_note(pattern: Pattern) -> None:
    """Say what is worth knowing of a pattern before hardware is met with it."""
    note = kernel_note(pattern)
    if note is not None:
        click.echo(f"note: {note}", err=True)


def tell_skipped(selection: Selection, *, every: bool = False) -> None:
    """Name the tensors that were likely meant to be searched, some or `every`; count vectors."""
    surprising = selection.surprising()
    vectors = len(selection.skipped) - len(surprising)
    shown = surprising if every else surprising[:SHOWN]
    for skip in shown:
        tell(skip)
    if more := len(surprising) - len(shown):
        click.echo(f"skipped {more} more; --dry-run or --json lists them with reasons", err=True)
    if vectors:
        some = "tensor" if vectors == 1 else "tensors"
        click.echo(f"skipped {vectors} {some} without rows and columns (biases, norms)", err=True)
